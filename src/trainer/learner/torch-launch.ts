/** How the `torch` learner's processes are started: arguments of torchrun, and what its last lines mean. */
import { fileURLToPath } from 'node:url';
import { UserError } from '../../base/errors.ts';
import type { Config } from '../../config/schema.ts';

export type TorchSettings = Extract<Config['learner'], { kind: 'torch' }>;

/** The Python program; the same path from the sources and from the built package, which holds both. */
export const TORCH_PROGRAM = fileURLToPath(
  new URL('../../../src/trainer/learner/torch/learner.py', import.meta.url),
);

/** Processes of all machines together. */
export const torchRanks = ({ processes, nodes }: TorchSettings): number => processes * (nodes?.count ?? 1);

/**
 * Arguments of `python` on machine `node`; lexpo itself runs on machine 0. On one machine the processes find
 * each other over loopback, at a port that is free.
 */
export function torchrunArguments(settings: TorchSettings, node = 0): string[] {
  const { processes, nodes, device, threads, startDeadlineMs, callDeadlineMs } = settings;
  const machines = nodes
    ? [
        `--nnodes=${nodes.count}`,
        `--node-rank=${node}`,
        `--master-addr=${nodes.address}`,
        `--master-port=${nodes.port}`,
      ]
    : ['--standalone', '--local-addr=127.0.0.1'];
  // Ours is the deadline that ends a run with a clear error; theirs, later, frees machines that we cannot reach.
  const timeoutS = Math.ceil(Math.max(startDeadlineMs, callDeadlineMs) / 1000) + 60;
  return [
    '-m',
    'torch.distributed.run',
    ...machines,
    `--nproc-per-node=${processes}`,
    TORCH_PROGRAM,
    `--device=${device}`,
    `--threads=${threads}`,
    `--timeout-s=${timeoutS}`,
  ];
}

/** For a plan: what is started, and by hand on which machine. One line each. */
export function describeTorch(settings: TorchSettings): string[] {
  const { processes, nodes, device, dtype, python } = settings;
  const what = processes === 1 ? '1 process' : `${processes} processes`;
  const lines = [`torch: ${what}${nodes ? ` on each of ${nodes.count} machines` : ''}, ${device}, ${dtype}`];
  for (let node = 1; node < (nodes?.count ?? 1); node++)
    lines.push(`on machine ${node}: ${[python, ...torchrunArguments(settings, node)].join(' ')}`);
  return lines;
}

const MARK = 'LEXPO-ERROR ';

/** What the program said of its end, where it could; else its last lines. `end`: `exit code 1`, `SIGKILL`. */
export function torchFailure(end: string, lines: readonly string[], python: string): UserError {
  const marked = lines.find((line) => line.startsWith(MARK));
  if (marked) {
    try {
      const { what, where, hint } = JSON.parse(marked.slice(MARK.length)) as Record<string, string>;
      return new UserError(what!, where || undefined, hint || undefined);
    } catch {
      // Cut in two by another process' output: the last lines say as much.
    }
  }
  const missing = lines.map((line) => /No module named '?([\w.]+)/.exec(line)?.[1]).find(Boolean);
  if (missing)
    return new UserError(
      `has no ${missing.split('.')[0]}`,
      python,
      'pip install torch transformers safetensors, or set learner.python to an interpreter that has them',
    );
  const cause = rootCause(lines);
  const how = cause?.signal ? `was ended by ${cause.signal}` : 'failed';
  // The system's own way to make room.
  const why = cause?.signal === 'SIGKILL' ? ': was there memory enough?' : '';
  const what = cause ? `rank ${cause.rank} (process ${cause.pid}) ${how}${why}` : `it ended with ${end}`;
  return new UserError(
    [what, ...ownLines(lines, cause?.rank).map((line) => `    ${line}`)].join('\n'),
    'the torch learner',
    'mend the cause (memory, GPUs, other machines), then go on with --resume',
  );
}

/** The process that torchrun's report names as the first one to fail. */
function rootCause(lines: readonly string[]): { rank: string; pid: string; signal?: string } | null {
  const report = lines.slice(lines.findIndex((line) => line.startsWith('Root Cause')) + 1).join('\n');
  const [, rank, pid, signal] =
    /^\s*rank\s*: (\d+) .*\n\s*exitcode\s*: -?\d+ \(pid: (\d+)\)(?:\s+\((\w+)\))?/m.exec(report) ?? [];
  return rank && pid ? { rank, pid, ...(signal ? { signal } : {}) } : null;
}

const TAIL_LINES = 20;

/** The last lines before torchrun's own; those of one rank where that has any. */
function ownLines(lines: readonly string[], rank?: string): string[] {
  const agent = lines.findIndex((line) => /^[IWE]\d{4} .*torch[/.]distributed[/.]/.test(line));
  const own = lines.slice(0, agent === -1 ? lines.length : agent).filter((line) => line.trim() !== '');
  const prefix = `[rank${rank}]: `;
  const ofRank = own.filter((line) => line.startsWith(prefix)).map((line) => line.slice(prefix.length));
  return (ofRank.length > 0 ? ofRank : own).slice(-TAIL_LINES);
}
