/** Which faults the soak injects, and when: plain data, drawn from a seeded stream. */
import type { Random } from '../../src/base/random.ts';
import type { Fault, Route, Rule } from '../../test/hostile-endpoint/hostile-endpoint.ts';

/** Milliseconds: of a call or a load until it counts as lost, and of an answer that still comes in time. */
export const DEADLINE_MS = 500;
const SLOW_MS = 60;
/** A load that is given up, and is done all the same a little later. */
const TOO_SLOW_MS = DEADLINE_MS + 150;

/** What can befall any request. */
const GENERAL: Fault[] = [
  { kind: 'status', status: 500 },
  { kind: 'status', status: 503, shape: 'html' },
  { kind: 'status', status: 502, shape: 'empty' },
  { kind: 'status', status: 429, shape: 'flat' },
  { kind: 'status', status: 400, message: 'CUDA out of memory' },
  { kind: 'html' },
  { kind: 'empty' },
  { kind: 'truncated-json' },
  { kind: 'wrong-length' },
  { kind: 'hang' },
  { kind: 'hang-mid-body' },
  { kind: 'reset-before' },
  { kind: 'reset-after' },
  { kind: 'reset-mid-body' },
  { kind: 'slow', ms: SLOW_MS },
  { kind: 'crash' },
];
const LIES: Fault[] = (
  [
    'no-token-ids',
    'other-prompt-ids',
    'logprob-missing',
    'logprob-added',
    'logprob-nan',
    'logprob-impossible',
    'logprob-positive',
    'other-model',
    'aborted',
    'usage',
    'no-choices',
    'no-tokens',
  ] as const
).map((lie) => ({ kind: 'lie', lie }));

const CONTROL: Partial<Record<Route, Fault[]>> = {
  load: [
    ...GENERAL,
    { kind: 'slow', ms: TOO_SLOW_MS },
    { kind: 'load-ignored' },
    { kind: 'load-unlisted' },
    { kind: 'load-wrong-root' },
    { kind: 'load-as-base' },
    { kind: 'load-as-previous' },
  ],
  unload: GENERAL,
  models: GENERAL,
  score: [...GENERAL, ...LIES, { kind: 'answer-as-base' }, { kind: 'answer-as-previous' }],
  health: GENERAL,
};
/**
 * Without a single answer by other weights from a server that has proved itself: an answer alone does not show
 * that, the comparison with the learner does.
 */
const COMPLETIONS: Fault[] = [...GENERAL, ...LIES];

/** What happens around one publication. */
export type Planned =
  | { kind: 'request'; route: Route; fault: Fault; replicas: number[]; often: 'once' | 'twice' | 'always' }
  /** The process is gone for `forMs`, and comes back without its adapters. */
  | { kind: 'restart'; replica: number; afterMs: number; forMs: number };

/** Load faults that are also tried on all replicas but one. */
const spreads = (route: Route): boolean => route === 'load';

/** Every planned fault once, each on the replicas that the stream says, in its order. */
export function plannedFaults(random: Random, replicas: number): Planned[] {
  const some = (): number => random.int(replicas);
  const often = (): 'once' | 'twice' | 'always' =>
    (['once', 'once', 'twice', 'always'] as const)[random.int(4)]!;
  const requests = Object.entries(CONTROL).flatMap(([route, faults]) =>
    faults.flatMap((fault): Planned[] => {
      const one = { kind: 'request', route: route as Route, fault, often: often() } as const;
      const spared = some();
      const others = Array.from({ length: replicas }, (_, i) => i).filter((i) => i !== spared);
      const alone = { ...one, replicas: [spared] };
      return spreads(route as Route) ? [alone, { ...one, often: often(), replicas: others }] : [alone];
    }),
  );
  const restarts = Array.from({ length: 8 }, (_, i): Planned => {
    const forMs = i % 2 === 0 ? 0 : random.int(400);
    return { kind: 'restart', replica: some(), afterMs: random.int(60), forMs };
  });
  return random.shuffle([...requests, ...restarts]);
}

/** The script of one replica around one publication: what is planned for it, and faults of its rollouts. */
export function scriptOf(planned: readonly Planned[], replica: number, random: Random): Rule[] {
  const rules = planned.flatMap((one): Rule[] => {
    if (one.kind !== 'request' || !one.replicas.includes(replica)) return [];
    const { route, fault } = one;
    if (one.often === 'always') return [{ route, fault }];
    return Array.from({ length: one.often === 'once' ? 1 : 2 }, (_, i) => ({ route, nth: i + 1, fault }));
  });
  const rollouts = Array.from({ length: 2 }, (): Rule => {
    const fault = COMPLETIONS[random.int(COMPLETIONS.length)]!;
    return { route: 'completions', nth: 1 + random.int(12), fault };
  });
  return [...rules, ...rollouts];
}

/** `status 503`, `lie other-model`, `slow 60 ms`, `hang`. */
export function nameOf(fault: Fault): string {
  switch (fault.kind) {
    case 'status':
      return `status ${fault.status}`;
    case 'lie':
      return `lie ${fault.lie}`;
    case 'slow':
      return fault.ms > DEADLINE_MS ? 'slower than the deadline' : 'slow';
    default:
      return fault.kind;
  }
}

export const namePlanned = (planned: Planned): string =>
  planned.kind === 'request' ? nameOf(planned.fault) : planned.forMs === 0 ? 'restart' : 'away for a while';
