/** Every operation of the table: its gradient against finite differences, each executor against its definition. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { gradients } from './autodiff.ts';
import { type Dim, dimValue } from './dims.ts';
import type { Executor, Value } from './executor.ts';
import { GRADIENTS } from './gradients.ts';
import { createGraph, input, type Node, reachable, reduceSum, times } from './graph.ts';
import { createSession } from './onnx/session.ts';
import { OPS, type OpName } from './ops.ts';
import { readSafetensorsIndex, writeSafetensors } from './safetensors.ts';
import { EXAMPLES, type Maker, SYMBOLS } from './test-support-examples.ts';
import { type Dense, evaluate } from './test-support-reference.ts';
import { createTfjsExecutor } from './tfjs/session.ts';
import { tfjsCpu } from './tfjs/test-support-cpu.ts';

const folder = temporaryFolder();
const w = Float64Array.of(0.5, -1.25, 2);
writeSafetensors(
  join(folder, 'model.safetensors'),
  new Map([['w', { shape: [3], data: Float32Array.from(w) }]]),
  {
    dtype: 'F32',
  },
);

const names = Object.keys(OPS) as OpName[];
const cases = names.flatMap((name) =>
  EXAMPLES[name].map((example, i) => ({ title: `${name} ${i}`, name, example })),
);

const executors: [string, Executor][] = [
  ['onnx', (outputs, options) => createSession(outputs, { ...options, prepack: false, arena: false })],
  ['tfjs', createTfjsExecutor(tfjsCpu)],
];

/** The example over random inputs, and Σ result ∘ random: a scalar that depends on every element. */
function prepare(name: OpName, example: (make: Maker) => Node) {
  const random = stream(3, 'ops-test', name);
  const graph = createGraph();
  const feeds = new Map<string, Dense>([['w', { shape: [3], data: w }]]);
  const floats: Node[] = [];
  const leaf = (dtype: 'f32' | 'i32', shape: readonly Dim[], draw: () => number): Node => {
    const key = `x${feeds.size}`;
    const size = shape.map((d) => dimValue(d, SYMBOLS));
    // f32 values, so that both executors see the same numbers
    const data = Float64Array.from({ length: size.reduce((a, b) => a * b, 1) }, () => Math.fround(draw()));
    feeds.set(key, { shape: size, data });
    const node = input(graph, key, dtype, shape);
    if (dtype === 'f32') floats.push(node);
    return node;
  };
  const result = example({
    graph,
    x: (shape, kind) =>
      leaf('f32', shape, () => (kind === 'positive' ? 0.5 + random.next() : 0.8 * random.normal())),
    index: (shape, below) => leaf('i32', shape, () => random.int(below)),
  });
  const factor = leaf('f32', result.shape, () => random.normal());
  floats.pop();
  // a symbol in a product needs an input that has it alone
  for (const [symbol, size] of SYMBOLS) {
    feeds.set(`size ${symbol}`, { shape: [size], data: new Float64Array(size) });
  }
  const total = reduceSum(
    times(result, factor),
    result.shape.map((_, i) => i),
  );
  const sizes = [...SYMBOLS.keys()].map((symbol) =>
    reduceSum(input(graph, `size ${symbol}`, 'f32', [symbol]), [0]),
  );
  return { result, total, floats, feeds, sizes };
}

describe('every operation', () => {
  test('has an example that uses it', () => {
    for (const { title, name, example } of cases) {
      const { result } = prepare(name, example);
      expect(
        reachable([result]).map((n) => n.op),
        title,
      ).toContain(name);
    }
    expect(new Set(cases.map((c) => c.name))).toEqual(new Set(names));
  });

  test.each(cases.filter(({ name }) => name !== 'cachedAttention'))(
    '$title: gradient',
    ({ name, example }) => {
      const { total, floats, feeds, sizes } = prepare(name, example);
      const value = (): number => evaluate([total, ...sizes], feeds)[0]!.data[0]!;
      const grads = evaluate([...gradients(total, floats), ...sizes], feeds);
      const step = 1e-5;
      floats.forEach((node, i) => {
        const { data } = feeds.get((node.attrs as { name: string }).name)!;
        const numeric = data.map((was, at) => {
          data[at] = was + step;
          const up = value();
          data[at] = was - step;
          const down = value();
          data[at] = was;
          return (up - down) / (2 * step);
        });
        grads[i]!.data.forEach((got, at) => {
          expect(Math.abs(got - numeric[at]!) / (1 + Math.abs(got))).toBeLessThan(1e-7);
        });
        expect(grads[i]!.data.length).toBe(numeric.length);
      });
    },
  );

  const everywhere = executors.flatMap(([on, executor]) => cases.map((c) => ({ ...c, on, executor })));
  test.each(everywhere)('$title: as $on computes it', async ({ name, example, executor }) => {
    const { result, total, floats, feeds, sizes } = prepare(name, example);
    const nodes = [
      result,
      ...(GRADIENTS[name] === null && name === 'cachedAttention' ? [] : gradients(total, floats)),
    ];
    const outputs = new Map([...nodes, ...sizes].map((node, i) => [`out ${i}`, node]));
    const session = await executor(outputs, { weights: readSafetensorsIndex(folder), threads: 1 });
    const inputs = new Map<string, Value>();
    for (const node of reachable([...nodes, ...sizes])) {
      if (node.op !== 'input') continue;
      const key = (node.attrs as { name: string }).name;
      const { shape, data } = feeds.get(key)!;
      inputs.set(key, {
        shape,
        data: node.dtype === 'i32' ? Int32Array.from(data) : Float32Array.from(data),
      });
    }
    const got = await session.run(inputs);
    evaluate([...nodes, ...sizes], feeds).forEach(({ shape, data }, i) => {
      const value = got.get(`out ${i}`)!;
      expect([...value.shape], `shape of result ${i}`).toEqual([...shape]);
      data.forEach((want, at) => {
        expect(Math.abs(value.data[at]! - want) / (1 + Math.abs(want)), `result ${i}`).toBeLessThan(1e-5);
      });
    });
    await session.release();
  });
});
