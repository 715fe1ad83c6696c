/** A list of checks: each runs once what it needs has passed, and no failure keeps the others from running. */
import { messageOf, UserError } from '../../base/errors.ts';
import { endpointError } from '../../rollout/rollout-failure.ts';

/** `warn`: it may be meant. `skip`: what it needs has failed, or the user ended the list. */
export type Status = 'ok' | 'warn' | 'fail' | 'skip';

export interface Finding {
  name: string;
  status: Status;
  /** What was found. More than one line where there are several mistakes. */
  detail: string;
  /** What to do about it. */
  hint: string | null;
}

/** What a check gives when it passes: a value for those that need it. With `warnings` it passes as `warn`. */
export interface Passed<T> {
  value: T;
  detail: string;
  warnings?: readonly string[];
}

/** A check that has run: whether it passed, and with what. */
export type Outcome<T> = { name: string } & ({ passed: true; value: T } | { passed: false });

type ValuesOf<N extends readonly Outcome<unknown>[]> = {
  [K in keyof N]: N[K] extends Outcome<infer T> ? T : never;
};

export interface Checklist {
  /** In the order in which they were made. */
  findings: readonly Finding[];
  /** Runs `run` with the values of `needs`. What it throws is the failure; nothing is thrown from here. */
  check<T, const N extends readonly Outcome<unknown>[]>(
    name: string,
    needs: N,
    run: (...values: ValuesOf<N>) => Passed<T> | Promise<Passed<T>>,
  ): Promise<Outcome<T>>;
}

/** `tell` hears each finding as it is made. Once `signal` has fired the checks that are left are skipped. */
export function createChecklist(tell: (finding: Finding) => void, signal?: AbortSignal): Checklist {
  const findings: Finding[] = [];
  const add = (finding: Finding): void => {
    findings.push(finding);
    tell(finding);
  };
  return {
    findings,
    async check(name, needs, run) {
      const missing = needs.filter(({ passed }) => !passed).map((need) => need.name);
      if (missing.length > 0 || signal?.aborted) {
        const detail = signal?.aborted ? 'interrupted' : `needs ${missing.join(' and ')}`;
        add({ name, status: 'skip', detail, hint: null });
        return { name, passed: false };
      }
      try {
        const values = needs.map((need) => (need.passed ? need.value : undefined));
        const { value, detail, warnings = [] } = await run(...(values as ValuesOf<typeof needs>));
        const status = warnings.length > 0 ? 'warn' : 'ok';
        add({ name, status, detail, hint: warnings.length > 0 ? warnings.join('; ') : null });
        return { name, passed: true, value };
      } catch (thrown) {
        add({ name, status: 'fail', ...failureOf(thrown) });
        return { name, passed: false };
      }
    },
  };
}

function failureOf(thrown: unknown): Pick<Finding, 'detail' | 'hint'> {
  const error = endpointError(thrown);
  if (error instanceof UserError) {
    const { what, where, hint } = error;
    return { detail: where ? `${where}: ${what}` : what, hint: hint ?? null };
  }
  const { syscall } = (error ?? {}) as NodeJS.ErrnoException;
  return syscall === undefined
    ? { detail: messageOf(error), hint: "this looks like a fault of the program's own: please report it" }
    : { detail: messageOf(error), hint: 'check the path, its permissions and the disk' };
}

/** One line for a finding, names padded to `width`; further lines of the detail stand below it, indented. */
export function findingText({ name, status, detail, hint }: Finding, width: number): string {
  const [first, ...rest] = detail.split('\n');
  const end = hint === null ? '' : ` → ${hint.replaceAll('\n', ' ')}`;
  const lines = rest.length === 0 ? [`${first}${end}`] : [first!, ...rest];
  if (rest.length > 0 && end) lines.push(end.trimStart());
  const head = `${status.padEnd(4)}  ${name.padEnd(width)}  `;
  return lines.map((line, i) => (i === 0 ? head : ' '.repeat(8)) + (i === 0 ? line : line.trim())).join('\n');
}
