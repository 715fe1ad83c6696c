/** How the `torch` learner's processes start and end: every way ends in one clear error, and in no process left. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { stream } from '../../base/random.ts';
import { temporaryFolder } from '../../base/test-support.ts';
import { findPython, torchOnCpu } from './test-support-python.ts';
import { randomPasses, tinyOptions } from './test-support-tiny.ts';
import { TORCH_PROGRAM, type TorchSettings, torchFailure } from './torch-launch.ts';
import { createTorchLearner, openTorchLearner } from './torch-learner.ts';
import { startTorch, type TorchProcess } from './torch-process.ts';
import { encodeMessage } from './wire.ts';

const { python, skip } = findPython();
const folder = temporaryFolder();

const settings = (change: Partial<TorchSettings> = {}): TorchSettings => torchOnCpu(python, change);

const errorOf = async (promise: Promise<unknown>): Promise<UserError> => {
  const error = await promise.then(
    () => new Error('nothing was thrown'),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(UserError);
  return error as UserError;
};

const lives = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    // A zombie is only waiting for its parent to be told.
    const stat = `/proc/${pid}/stat`;
    return !existsSync(stat) || !/^\d+ \(.*\) Z/s.test(readFileSync(stat, 'utf8'));
  } catch {
    return false;
  }
};

/** Resolves when none of the processes lives; fails when one still does after so long. */
async function allGone(pids: readonly number[], withinMs = 20_000): Promise<void> {
  for (const started = performance.now(); performance.now() - started < withinMs; await sleep(50))
    if (!pids.some(lives)) return;
  expect(pids.filter(lives)).toEqual([]);
}

const pidsOf = ({ about }: TorchProcess): number[] => about.ranks.map(({ pid }) => pid);

/** A program in Python's place. */
function standIn(name: string, script: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

describe.skipIf(process.platform === 'win32')('a start that fails', () => {
  it('names a Python that is not there', async () => {
    const error = await errorOf(startTorch(settings({ python: '/nowhere/python' })));
    expect(error.message).toBe(
      '/nowhere/python: there is no such program\n  → set learner.python to a Python with torch and transformers',
    );
  });

  it('names a package that Python lacks', async () => {
    const script = 'echo "python: Error while finding module: No module named \'torch\'" >&2; exit 1';
    const error = await errorOf(startTorch(settings({ python: standIn('no-torch', script) })));
    expect(error.message).toMatch(/no-torch: has no torch\n {2}→ pip install torch transformers safetensors/);
  });

  it('shows the last lines of what ended, whichever output they went to', async () => {
    const python = standIn('noisy', 'echo one; echo two >&2; sleep 0.2; printf three >&2; exit 7');
    const error = await errorOf(startTorch(settings({ python })));
    expect(error.message).toMatch(/the torch learner: it ended with exit code 7\n/);
    for (const word of ['one', 'two', 'three']) expect(error.message).toContain(`\n    ${word}\n`);
  });

  it('ends at its deadline, with what was started', async () => {
    const file = join(folder, 'pid');
    const python = standIn('silent', `echo $$ > ${file}; trap '' TERM; while :; do sleep 0.1; done`);
    const error = await errorOf(startTorch(settings({ python, startDeadlineMs: 1000 })));
    expect(error.message).toMatch(/no answer to its start within 1 s/);
    await allGone([Number(readFileSync(file, 'utf8'))]);
  });
});

/** A program in learner.py's place: it says hello when `greets`, and then what each request is answered with. */
function talker(name: string, greets: boolean, answers: Buffer[]): string {
  const framed = (bytes: Buffer): Buffer => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(bytes.length));
    return Buffer.concat([length, bytes]);
  };
  const ranks = [{ rank: 0, pid: 1, host: 'here' }];
  const hello = { kind: 'hello', body: { ranks, device: 'cpu', torch: '2' }, tensors: new Map() };
  const first = greets ? framed(Buffer.concat(encodeMessage(hello))) : answers.shift()!;
  const file = join(folder, `${name}.cjs`);
  writeFileSync(
    file,
    `const socket = require('net').connect(process.env.LEXPO_SOCKET).on('error', () => {});
     const answers = ${JSON.stringify(answers.map((bytes) => bytes.toString('base64')))};
     socket.write(Buffer.from('${first.toString('base64')}', 'base64'));
     socket.on('data', () => answers.length && socket.write(Buffer.from(answers.shift(), 'base64')));
     process.stdin.on('end', () => process.exit(1)).resume();`,
  );
  return standIn(name, `exec ${process.execPath} ${file}`);
}

describe.skipIf(process.platform === 'win32')('a line with something else at its other end', () => {
  it('ends at once and says that the two do not fit', async () => {
    const garbage = Buffer.from('HTTP/1.1 400 Bad Request\r\n');
    const python = talker('garbage', false, [garbage]);
    const started = performance.now();
    const error = await errorOf(startTorch(settings({ python, startDeadlineMs: 30_000 })));
    expect(error.message).toMatch(/not a message of a learner: a frame of \d+ bytes\n.*same release/);
    expect(performance.now() - started).toBeLessThan(15_000);
  });

  it('also in the middle of the work, and every later call says the same', async () => {
    const python = talker('later', true, [Buffer.from('Segmentation fault')]);
    const processes = await startTorch(settings({ python }));
    const ping = { kind: 'ping', body: {}, tensors: new Map() };
    const error = await errorOf(processes.call(ping, 30_000));
    expect(error.message).toMatch(/not a message of a learner/);
    expect(await errorOf(processes.call(ping, 30_000))).toBe(error);
    await processes.close();
  });
});

describe.skipIf(process.platform === 'win32')('a line that closes while the processes live', () => {
  it('ends the call under way, and the processes', async () => {
    const python = talker('hung-up', true, []);
    const file = join(folder, 'hung-up.cjs');
    writeFileSync(
      file,
      `${readFileSync(file, 'utf8')}; console.log('lost'); socket.on('data', () => socket.destroy());`,
    );
    const processes = await startTorch(settings({ python }), { closedMs: 300 });
    const ping = { kind: 'ping', body: {}, tensors: new Map() };
    const error = await errorOf(processes.call(ping, 60_000));
    expect(error.message).toMatch(/it ended with a closed line and no exit\n {4}lost/);
    await processes.close();
  });
});

describe.skipIf(skip)(`running processes${skip ? `: ${skip}` : ''}`, { timeout: 120_000 }, () => {
  const [pass] = randomPasses(stream(1, 'faults'));

  it('a killed rank ends the call under way, all later ones, and the other ranks', async () => {
    const processes = await startTorch(settings({ processes: 2 }));
    const learner = await openTorchLearner(processes, tinyOptions(), settings());
    const pids = pidsOf(processes);
    expect(pids.length).toBe(2);
    // A stopped rank holds the call; killed, it ends it.
    process.kill(pids[1]!, 'SIGSTOP');
    const call = errorOf(learner.rowValues(pass!.batch, 'policy', 1));
    await sleep(300);
    expect(pids.every(lives)).toBe(true);
    process.kill(pids[1]!, 'SIGKILL');
    const error = await call;
    expect(error.message).toContain(`rank 1 (process ${pids[1]}) was ended by SIGKILL`);
    expect(error.message).toContain('--resume');
    expect(await errorOf(learner.update(1).catch(() => learner.state()))).toBe(error);
    await allGone(pids);
    await learner.close();
  });

  it('a rank that stops answering is noticed while nothing is asked', async () => {
    const processes = await startTorch(settings({ processes: 2 }), { heartbeatMs: 800 });
    const pids = pidsOf(processes);
    await sleep(2500);
    expect(pids.every(lives)).toBe(true);
    process.kill(pids[1]!, 'SIGSTOP');
    await allGone(pids);
    const later = processes.call({ kind: 'ping', body: {}, tensors: new Map() }, 1000);
    expect((await errorOf(later)).message).toMatch(/no answer to its heartbeat within 4.8 s/);
    await processes.close();
  });

  it('the program refuses another version of the wire form', () => {
    const bytes = Buffer.concat(encodeMessage({ kind: 'ping', body: {}, tensors: new Map() }));
    const other = Buffer.from(bytes.toString('latin1').replace('version\\":1', 'version\\":2'), 'latin1');
    const decode = (input: Buffer) =>
      spawnSync(python, ['-c', 'import sys, learner; print(learner.decode(sys.stdin.buffer.read())[0])'], {
        input,
        env: { ...process.env, PYTHONPATH: dirname(TORCH_PROGRAM), PYTHONDONTWRITEBYTECODE: '1' },
        encoding: 'utf8',
      });
    expect(decode(bytes).stdout).toBe('ping\n');
    const refused = decode(other);
    expect(refused.status).toBe(1);
    expect(torchFailure('exit code 1', refused.stderr.split('\n'), python).message).toMatch(
      /speaks version 1 of the learner's wire form, and got version 2\n.*same release/,
    );
  });

  it('a model that cannot be loaded is one clear error', async () => {
    const options = tinyOptions();
    const modelFolder = join(folder, 'no-model');
    const noModel = await errorOf(createTorchLearner({ ...options, modelFolder }, settings()));
    expect(noModel.message).toMatch(/no-model: transformers [\d.]+ cannot load it/);
    expect(noModel.message).not.toContain('Traceback');
  });

  it('GPUs that are asked for and not there are said before anything is trained', async (context) => {
    const processes = await startTorch(settings({ device: 'cuda' })).catch((error: unknown) => error);
    if (!(processes instanceof Error)) {
      await (processes as TorchProcess).close();
      return context.skip('there is a GPU');
    }
    expect(processes).toBeInstanceOf(UserError);
    expect(processes.message).toMatch(/^learner.device: is cuda, and this PyTorch sees no GPU\n/);
  });

  it('all processes end when the program that started them is killed', async () => {
    const script = join(folder, 'parent.mts');
    const module = new URL('./torch-process.ts', import.meta.url).href;
    writeFileSync(
      script,
      `import { startTorch } from ${JSON.stringify(module)};
       const { about } = await startTorch(${JSON.stringify(settings({ processes: 2 }))});
       process.stdout.write(JSON.stringify(about.ranks.map(({ pid }) => pid)));
       setInterval(() => {}, 1000);`,
    );
    const parent = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [text] = (await Promise.race([once(parent.stdout, 'data'), once(parent, 'exit')])) as [Buffer];
    const pids = JSON.parse(text.toString()) as number[];
    expect(pids.every(lives)).toBe(true);
    parent.kill('SIGKILL');
    await allGone(pids);
  });
});
