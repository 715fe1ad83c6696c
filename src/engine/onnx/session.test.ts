import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { createGraph, input, plus } from '../graph.ts';
import { isOutOfMemory } from '../out-of-memory.ts';
import { onnxExecutor } from './session.ts';

const module = new URL('../training-session.ts', import.meta.url).href;
const folder = fileURLToPath(new URL('../../../test/vectors/qwen3-tiny', import.meta.url));
const PROGRAM = `
  const { createTrainingSession } = await import(${JSON.stringify(module)});
  const options = { folder: ${JSON.stringify(folder)}, lora: null, mode: 'full', gradients: false, threads: 1 };
  const session = await createTrainingSession(options).catch((error) => console.log(error.message));
  if (session) console.log('open');
`;

function openWith(argument: string): { output: string; signal: string | null } {
  const args = ['--import', 'tsx', '--input-type=module', '-e', PROGRAM, argument];
  const { stdout, signal } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  return { output: stdout, signal };
}

// onnxruntime reads /proc/self/cmdline by a recursive pattern: a long one overflows its stack.
test.skipIf(process.platform !== 'linux')(
  'a command line that would end the process within onnxruntime is a clear error',
  () => {
    expect(openWith('房'.repeat(2000))).toEqual({ output: 'open\n', signal: null });
    const { output, signal } = openWith('房'.repeat(12_000));
    expect(signal).toBeNull();
    expect(output).toMatch(/^command line: has \d+ bytes.*\n.*--query-id/);
  },
);

test('a run that no memory suffices for is told apart, and the session stays usable', async () => {
  const graph = createGraph();
  const sum = plus(input(graph, 'a', 'f32', ['N', 1]), input(graph, 'b', 'f32', [1, 'N']));
  const session = await onnxExecutor(new Map([['sum', sum]]), { weights: new Map(), threads: 1 });
  const run = (n: number) => {
    const data = new Float32Array(n).fill(1);
    return session.run(
      new Map([
        ['a', { shape: [n, 1], data }],
        ['b', { shape: [1, n], data }],
      ]),
    );
  };
  // 2⁴⁶ values of 4 bytes are more than a process can address.
  const failure = await run(2 ** 23).catch((error: unknown) => error);
  expect(isOutOfMemory(failure), String(failure)).toBe(true);
  expect(isOutOfMemory(new Error('no memory of that'))).toBe(false);
  expect([...(await run(2)).get('sum')!.data]).toEqual([2, 2, 2, 2]);
  await session.release();
});
