import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { interruptible } from './interrupt.ts';

/** A process that stops whole when interrupted: it says so, and ends after a wait that a second signal cuts. */
const PROGRAM = `
  const { endWithOutput, onInterrupt } = await import(${JSON.stringify(new URL('./interrupt.ts', import.meta.url).href)});
  const interrupt = onInterrupt((name) => console.log('first ' + name));
  endWithOutput(process.stdout, process.stderr);
  if (process.argv[1] === 'idle') interrupt.stop();
  console.log('ready');
  setInterval(() => console.log('still there'), 20).unref();
  const stay = setInterval(() => {}, 1000);
  interrupt.signal.addEventListener('abort', () => {
    if (process.argv[1] === 'slow') return;
    clearInterval(stay);
    console.log('whole');
    process.exitCode = interrupt.exitCode();
  });
`;

async function start(
  mode: 'quick' | 'slow' | 'idle',
): Promise<{ child: ChildProcess; output: () => string; until: (text: string) => Promise<void> }> {
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', PROGRAM, mode]);
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const until = async (text: string) => {
    while (!output.includes(text)) await once(child.stdout, 'data');
  };
  await until('ready');
  return { child, output: () => output, until };
}

for (const [name, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  test(`${name} once: the work ends whole, with code ${code}`, async () => {
    const { child, output } = await start('quick');
    child.kill(name);
    expect(await once(child, 'exit')).toEqual([code, null]);
    expect(output()).toContain(`first ${name}\nwhole\n`);
  });
}

test('a second signal ends at once, without the exit that stops threads in the middle', async () => {
  const { child, until } = await start('slow');
  child.kill('SIGINT');
  await until('first SIGINT');
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([null, 'SIGTERM']);
});

test('when the reader of the output leaves: as by SIGTERM, and quietly where nothing listens', async () => {
  for (const [mode, code] of [
    ['quick', 143],
    ['idle', 0],
  ] as const) {
    const { child, output } = await start(mode);
    child.stdout!.destroy();
    expect(await once(child, 'exit')).toEqual([code, null]);
    expect(output()).not.toContain('Error');
  }
});

test('interruptible work: 0 when done, the code of the signal that ended it, and what else it failed with', async () => {
  const ended = (signal: AbortSignal) => {
    process.emit('SIGTERM', 'SIGTERM');
    signal.throwIfAborted();
  };
  const names: string[] = [];
  const run = (work: (signal: AbortSignal) => void) =>
    interruptible(
      (name) => names.push(name),
      async (signal) => work(signal),
    );
  const listening = process.listenerCount('SIGTERM');
  expect(await run(() => {})).toBe(0);
  expect(await run(ended)).toBe(143);
  const fails = () => {
    throw new Error('down');
  };
  await expect(run(fails)).rejects.toThrow('down');
  await expect(
    run(() => {
      process.emit('SIGTERM', 'SIGTERM');
      fails();
    }),
  ).rejects.toThrow('down');
  expect(names).toEqual(['SIGTERM', 'SIGTERM']);
  expect(process.listenerCount('SIGTERM')).toBe(listening);
});
