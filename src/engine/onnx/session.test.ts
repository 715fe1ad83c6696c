import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

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
