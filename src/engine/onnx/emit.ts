/** From a graph to the bytes of an ONNX model. */

import { expandComposites } from '../composites.ts';
import { type Dim, dimParts } from '../dims.ts';
import { isOp, type Node, reachable } from '../graph.ts';
import type { OpName } from '../ops.ts';
import { type Emitter, int, LOWER, NATIVE } from './lower.ts';
import { type Attribute, DATA_TYPE, type Initializer, modelProto, type OnnxGraph } from './model.ts';

/** Where a frozen weight lies, for the model's external data. */
export interface ExternalWeight {
  dtype: 'F32' | 'F16' | 'BF16';
  file: string;
  offset: number;
  bytes: number;
}

/**
 * The ONNX model that computes `outputs` (name → node). Inputs keep their names;
 * those that no output needs are left out. `external` tells where a frozen weight lies.
 */
export function emitOnnx(
  outputs: ReadonlyMap<string, Node>,
  external: (name: string) => ExternalWeight,
): Uint8Array {
  const names = [...outputs.keys()];
  const roots = expandComposites([...outputs.values()], NATIVE);
  const order = reachable(roots);
  const onnx: OnnxGraph = { nodes: [], initializers: [], inputs: [], outputs: [], values: [] };
  const nameOf = new Map<Node, string>();
  const cache = new Map<string, string>();
  // where a symbol can be read at run time: an input and its axis
  const symbols = new Map<string, { name: string; axis: number }>();

  const emitMany = (
    op: string,
    from: string[],
    count: number,
    attributes: Record<string, Attribute> = {},
    domain = '',
  ): string[] => {
    const id = onnx.nodes.length;
    const to = Array.from({ length: count }, (_, i) => `v${id}_${i}`);
    onnx.nodes.push({ op, domain, inputs: from, outputs: to, attributes });
    return to;
  };
  const cached = (key: string, make: () => string): string => {
    const name = cache.get(key) ?? make();
    cache.set(key, name);
    return name;
  };
  const constant = (type: 'f32' | 'i32' | 'i64', shape: readonly number[], data: readonly number[]): string =>
    cached(`${type}[${shape}] ${data}`, () => {
      const name = `c${onnx.initializers.length}`;
      onnx.initializers.push({ name, type, shape, data });
      return name;
    });
  const emit: Emitter['emit'] = (op, from, attributes = {}, domain = '') =>
    emitMany(op, from, 1, attributes, domain)[0]!;
  const symbol = (name: string): string =>
    cached(`symbol ${name}`, () => {
      const source = symbols.get(name);
      if (!source) throw new Error(`no input has a dimension '${name}' of its own`);
      const { axis } = source;
      return emit('Shape', [source.name], { start: int(axis), end: int(axis + 1) });
    });
  const dimension = (dim: Dim): string => {
    const { factor, symbols: parts } = dimParts(dim);
    const values = parts.map(symbol);
    if (factor !== 1 || values.length === 0) values.unshift(constant('i64', [1], [factor]));
    return values.reduce((a, b) => cached(`${a}*${b}`, () => emit('Mul', [a, b])));
  };
  const emitter: Emitter = {
    emit,
    emitMany: (op, from, count, attributes) => emitMany(op, from, count, attributes),
    i64: (data) =>
      typeof data === 'number' ? constant('i64', [], [data]) : constant('i64', [data.length], data),
    f32: (data) => constant('f32', [], [data]),
    i32: (data) => constant('i32', [], [data]),
    shape: (dims) =>
      dims.every((d) => typeof d === 'number')
        ? constant('i64', [dims.length], dims as number[])
        : cached(`shape ${dims}`, () => emit('Concat', dims.map(dimension), { axis: int(0) })),
  };

  for (const node of order) {
    if (!isOp(node, 'input')) continue;
    const { name, dtype, shape } = node.attrs;
    onnx.inputs.push({ name, type: dtype, shape });
    nameOf.set(node, name);
    shape.forEach((d, axis) => {
      if (typeof d === 'string' && !d.includes('*') && !symbols.has(d)) symbols.set(d, { name, axis });
    });
  }
  for (const node of order) {
    if (isOp(node, 'input')) continue;
    if (isOp(node, 'constant')) {
      nameOf.set(node, constant(node.attrs.dtype, node.attrs.shape, node.attrs.data));
    } else if (isOp(node, 'weight')) {
      const { initializer, widen } = weightInitializer(node.attrs.name, node.attrs.shape, external);
      onnx.initializers.push(initializer);
      const name = initializer.name;
      nameOf.set(node, widen ? emit('Cast', [name], { to: int(DATA_TYPE.f32) }) : name);
    } else {
      const lower = LOWER[node.op] as (e: Emitter, node: Node<OpName>, ...inputs: string[]) => string;
      const name = lower(emitter, node, ...node.inputs.map((n) => nameOf.get(n)!));
      nameOf.set(node, name);
      onnx.values.push({ name, type: node.dtype, shape: node.shape });
    }
  }
  // ONNX wants outputs to be node results with their own names
  roots.forEach((node, i) => {
    onnx.nodes.push({
      op: 'Identity',
      domain: '',
      inputs: [nameOf.get(node)!],
      outputs: [names[i]!],
      attributes: {},
    });
    onnx.outputs.push({ name: names[i]!, type: node.dtype, shape: node.shape });
  });
  return modelProto(onnx);
}

function weightInitializer(
  name: string,
  shape: readonly number[],
  external: (name: string) => ExternalWeight,
): { initializer: Initializer; widen: boolean } {
  const { dtype, file, offset, bytes: length } = external(name);
  const type = ({ F32: 'f32', F16: 'f16', BF16: 'bf16' } as const)[dtype];
  return {
    initializer: { name, type, shape, external: { file, offset, length } },
    widen: type !== 'f32',
  };
}
