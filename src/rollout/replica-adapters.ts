/** Adapters on one replica: loaded and proved, or taken away, with repeats only where they are safe. */
import { basename, posix } from 'node:path';
import { messageOf, UserError } from '../base/errors.ts';
import type { Endpoint, ModelCard } from './endpoint.ts';
import { type ProofSettings, PublishError, prove, type ServedAdapter, sameRoot } from './proof.ts';
import { RolloutFailure } from './rollout-failure.ts';

export interface AdapterHost {
  endpoint: Endpoint;
  /** The folder of adapters as the server sees it; null: as it is here. */
  adapterRoot: string | null;
}

/** Resolves after so many milliseconds. */
export type Wait = (ms: number) => Promise<void>;

/** The adapter's folder as the server sees it. */
export function serverPath({ adapterRoot }: Pick<AdapterHost, 'adapterRoot'>, folder: string): string {
  return adapterRoot === null ? folder : posix.join(adapterRoot, basename(folder));
}

const TRIES = 3;

/** Repeats what asks only, or what was made sure not to have been done. */
async function again<T>(
  run: () => Promise<T>,
  safe: (error: RolloutFailure) => boolean,
  wait: Wait,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run();
    } catch (error) {
      if (attempt === TRIES || !(error instanceof RolloutFailure) || !safe(error)) throw error;
      await wait(150 * 4 ** (attempt - 1));
    }
  }
}

const passing = ({ reason, status = 0 }: RolloutFailure): boolean =>
  reason === 'connection' || reason === 'overloaded' || status === 429 || status >= 500;

/**
 * Loads `adapter` under its name. Loading is not idempotent, so before every try the server is asked whether
 * it has it: a lost 200 is found there. Tried again after a lost connection, a 5xx, while another load of
 * the name is under way, and where the folder is not seen yet (a shared disk may lag); at most three times.
 * `onSend` is called before each load that is sent.
 *
 * @throws RolloutFailure and UserError as `loadAdapter`; UserError where the server does not find the folder.
 */
export async function loadOn(
  host: AdapterHost,
  adapter: ServedAdapter,
  wait: Wait,
  onSend: () => void = () => {},
): Promise<void> {
  const path = serverPath(host, adapter.folder);
  const { endpoint } = host;
  // From which folder, the proof looks at.
  const has = async (): Promise<boolean> =>
    (await endpoint.listModels()).some(({ id }) => id === adapter.name);
  const safe = (error: RolloutFailure): boolean =>
    passing(error) || error.status === 404 || /being loaded/.test(error.message);
  const load = async (): Promise<void> => {
    if (await has()) return;
    onSend();
    await endpoint.loadAdapter(adapter.name, path);
  };
  try {
    await again(load, safe, wait);
  } catch (error) {
    if (!(error instanceof RolloutFailure)) throw error;
    // The answer may be what was late, not the load.
    if (error.reason === 'deadline' && (await has().catch(() => false))) return;
    if (error.status === 404)
      throw new UserError(
        `the server does not find ${path}: ${error.message}`,
        `adapter ${adapter.name}`,
        'share the folder of adapters with the server, and set adapterRoot of its replica to the path there',
      );
    throw error;
  }
}

/** As `prove`, and asks again after a lost connection or a 5xx, at most three times. */
export function proveOn(
  host: AdapterHost,
  adapter: ServedAdapter,
  settings: ProofSettings,
  wait: Wait,
): Promise<void> {
  const path = serverPath(host, adapter.folder);
  return again(() => prove(host.endpoint, adapter, path, settings), passing, wait);
}

/** Takes the name away. One that the server does not know is gone already. */
export async function unloadFrom({ endpoint }: Pick<AdapterHost, 'endpoint'>, name: string): Promise<void> {
  try {
    await endpoint.unloadAdapter(name);
  } catch (error) {
    if (!(error instanceof RolloutFailure) || error.status !== 404) throw error;
  }
}

/** Whether an error says that the server itself may be gone, and not that it refuses something. */
export const mayBeDead = (error: unknown): boolean =>
  error instanceof RolloutFailure &&
  (error.reason === 'connection' || error.reason === 'deadline' || (error.status ?? 0) >= 500);

/** Those of `adapters` that are not listed, or from another folder. */
export function misplaced(
  host: Pick<AdapterHost, 'adapterRoot'>,
  adapters: readonly ServedAdapter[],
  cards: readonly ModelCard[],
): ServedAdapter[] {
  return adapters.filter((adapter) => {
    const card = cards.find(({ id }) => id === adapter.name);
    return !card || !sameRoot(card.root, serverPath(host, adapter.folder));
  });
}

/** What came of an adapter on one replica; `gone`: why it left the rotation meanwhile. */
export interface Attempt {
  name: string;
  error: unknown;
  gone: string | null;
}

/** One error of all replicas; that of the only one as it is. */
export function spreadError(adapter: ServedAdapter, replicas: number, tried: readonly Attempt[]): unknown {
  const [first] = tried;
  if (replicas === 1 && first?.error) return first.error;
  const lines = tried.map(({ name, error, gone }) => {
    const what = error ? messageOf(error) : gone ? `left the rotation: ${gone}` : 'could serve it';
    return `\n  ${name}: ${what.replaceAll('\n', ' ')}`;
  });
  const failed = tried.filter(({ error, gone }) => error || gone).length;
  return new PublishError(
    'partial-failure',
    adapter.name,
    `${failed} of ${tried.length} replicas do not serve it, so none does${lines.join('')}`,
  );
}
