import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import {
  describeTorch,
  TORCH_PROGRAM,
  type TorchSettings,
  torchFailure,
  torchRanks,
  torchrunArguments,
} from './torch-launch.ts';

const settings = (change: object): TorchSettings => {
  const { learner } = configSchema.parse({
    run: { name: 'x' },
    model: { path: 'm' },
    data: { corpus: 'c', train: 't', validation: 'v' },
    train: { steps: 1 },
    learner: { kind: 'torch', ...change },
  });
  return learner as TorchSettings;
};

describe('starting torchrun', () => {
  it('on one machine: over loopback, at a free port', () => {
    expect(torchrunArguments(settings({ processes: 2, device: 'cpu' }))).toEqual([
      '-m',
      'torch.distributed.run',
      '--standalone',
      '--local-addr=127.0.0.1',
      '--nproc-per-node=2',
      TORCH_PROGRAM,
      '--device=cpu',
      '--threads=2',
      '--timeout-s=660',
    ]);
    expect(existsSync(TORCH_PROGRAM)).toBe(true);
  });

  it('on several: every machine with its number, and the plan says what to run there', () => {
    const two = settings({ processes: 4, nodes: { count: 2, address: 'gpu-0', port: 1234 } });
    expect(torchRanks(two)).toBe(8);
    expect(torchrunArguments(two, 1)).toEqual(
      expect.arrayContaining([
        '--nnodes=2',
        '--node-rank=1',
        '--master-addr=gpu-0',
        '--master-port=1234',
        '--nproc-per-node=4',
      ]),
    );
    const [what, other, ...none] = describeTorch(two);
    expect(what).toBe('torch: 4 processes on each of 2 machines, auto, float32');
    expect(other).toMatch(/^on machine 1: python3 -m torch\.distributed\.run --nnodes=2 --node-rank=1 /);
    expect(none).toEqual([]);
    expect(describeTorch(settings({}))).toEqual(['torch: 1 process, auto, float32']);
  });
});

describe('the error that an end becomes', () => {
  const report = (rank: number, exit: string) => [
    'W1201 01:35:40.38 18107 torch/distributed/elastic/multiprocessing/api.py:1028] Sending closing signal',
    'Traceback (most recent call last):',
    '  of torchrun itself',
    'Failures:',
    '  rank      : 7 (local_rank: 7)',
    '  exitcode  : -15 (pid: 1) (SIGTERM)',
    'Root Cause (first observed failure):',
    '[0]:',
    '  host      : localhost',
    `  rank      : ${rank} (local_rank: ${rank})`,
    `  exitcode  : ${exit}`,
    '============',
  ];

  it('is what the program said, where it said something', () => {
    const line = `LEXPO-ERROR ${JSON.stringify({ what: 'is bad', where: 'here', hint: 'mend it' })}`;
    expect(torchFailure('exit code 1', ['x', line, ...report(0, '1 (pid: 5) ')], 'python3').message).toBe(
      'here: is bad\n  → mend it',
    );
    const cut = torchFailure('exit code 1', ['LEXPO-ERROR {"what": "is b', 'last words'], 'python3');
    expect(cut.message).toContain('last words');
  });

  it('names the rank that failed first, with its own lines only', () => {
    const lines = [
      '[rank0]: OTHER',
      '[rank1]: Traceback',
      '',
      '[rank1]: ValueError: odd',
      ...report(1, '1 (pid: 9) '),
    ];
    expect(torchFailure('exit code 1', lines, 'python3').message).toMatch(
      /^the torch learner: rank 1 \(process 9\) failed\n {4}Traceback\n {4}ValueError: odd\n {2}→ mend/,
    );
    expect(torchFailure('exit code 1', report(3, '-9 (pid: 12)  (SIGKILL)'), 'python3').message).toMatch(
      /^the torch learner: rank 3 \(process 12\) was ended by SIGKILL: was there memory enough\?\n {2}→/,
    );
  });

  it('names a package that is missing, and else shows the last lines', () => {
    const missing = ["ModuleNotFoundError: No module named 'torch.distributed'"];
    expect(torchFailure('exit code 1', missing, '/usr/bin/python3').message).toMatch(
      /^\/usr\/bin\/python3: has no torch\n/,
    );
    const many = Array.from({ length: 100 }, (_, i) => `line ${i}`);
    const { message } = torchFailure('SIGSEGV', many, 'python3');
    expect(message).toMatch(/^the torch learner: it ended with SIGSEGV\n {4}line 80\n/);
    expect(message).toContain('line 99');
  });
});
