/**
 * The servers that answer users, told of a new champion: loaded and proved on every one of them before the
 * registry's pointer moves, so that whoever reads the pointer finds its adapter served.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../base/errors.ts';
import type { ServedAdapter } from '../../rollout/proof.ts';
import {
  type AdapterHost,
  type Attempt,
  loadOn,
  proveOn,
  spreadError,
  unloadFrom,
} from '../../rollout/replica-adapters.ts';
import { publishedAdapter } from '../publish.ts';
import type { Registry } from './registry.ts';

/** A server, and what messages call it: its address. */
export interface ChampionServer extends AdapterHost {
  name: string;
}

export interface ServingSettings {
  servers: readonly ChampionServer[];
  /** Largest |Δ log-probability| (nats) of a proof. */
  tolerance: number;
}

/** The servers of users, as a job and a rollback use them. */
export interface Serving {
  /**
   * Loads and proves the champion `name` of the registry on every server; `now` is the one in use, null for none.
   *
   * @throws as `serveOnAll`.
   */
  serve(registry: Registry, name: string, now: string | null): Promise<void>;
  /** Unloads the registry's champions other than `kept` wherever they are loaded. */
  retire(registry: Registry, kept: readonly (string | null)[]): Promise<void>;
}

/** `say` gets what becomes of the servers, a line each. */
export function servingOf(settings: ServingSettings, say: (line: string) => void): Serving {
  return {
    async serve({ champions }, name, now) {
      const others = now === null || now === name ? [] : [publishedAdapter(join(champions, now))];
      await serveOnAll(settings, publishedAdapter(join(champions, name)), others);
      const { length } = settings.servers;
      say(`${name} is served and proved on ${length} server${length === 1 ? '' : 's'}`);
    },
    async retire({ champions }, kept) {
      const known = existsSync(champions) ? readdirSync(champions) : [];
      await retireOnAll(
        settings,
        known,
        kept.filter((name) => name !== null),
        say,
      );
    },
  };
}

const wait = (ms: number): Promise<void> => sleep(ms);

/**
 * Loads `champion` on every server, unless it is there, and proves it there. `others`: adapters that a server may
 * wrongly answer with in its place. On a failure it is unloaded again wherever this call has loaded it.
 *
 * @throws PublishError, UserError or RolloutFailure, with what each server said, when one of them does not serve it.
 */
export async function serveOnAll(
  { servers, tolerance }: ServingSettings,
  champion: ServedAdapter,
  others: readonly ServedAdapter[],
): Promise<void> {
  const sent = new Set<ChampionServer>();
  const tried = await Promise.all(
    servers.map(async (server): Promise<Attempt> => {
      let error: unknown = null;
      try {
        await loadOn(server, champion, wait, () => void sent.add(server));
        await proveOn(server, champion, { tolerance, older: others }, wait);
      } catch (thrown) {
        error = thrown;
      }
      return { name: server.name, error, gone: null };
    }),
  );
  if (tried.every(({ error }) => error === null)) return;
  // What cannot be taken away serves nobody: users ask for the name that the pointer says.
  await Promise.allSettled([...sent].map((server) => unloadFrom(server, champion.name)));
  throw spreadError(champion, servers.length, tried);
}

/**
 * Unloads from every server those of `champions` (names) that it lists and `kept` does not have. A server that
 * fails to is told of and left: nobody asks for what it still holds.
 */
export async function retireOnAll(
  { servers }: Pick<ServingSettings, 'servers'>,
  champions: readonly string[],
  kept: readonly string[],
  say: (line: string) => void,
): Promise<void> {
  await Promise.all(
    servers.map(async (server) => {
      try {
        const listed = (await server.endpoint.listModels()).map(({ id }) => id);
        const old = listed.filter((id) => champions.includes(id) && !kept.includes(id));
        for (const name of old) await unloadFrom(server, name);
      } catch (error) {
        say(`${server.name} keeps older champions loaded: ${messageOf(error)}`);
      }
    }),
  );
}
