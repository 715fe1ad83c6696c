/** Checks the servers that answer users: `retrain.serve`. */
import { UserError } from '../../base/errors.ts';
import type { Config } from '../../config/schema.ts';
import { serverKey } from '../../trainer/policy-service.ts';
import { currentChampion, registryAt } from '../../trainer/retrain/registry.ts';
import { readReplicas } from '../status/read-replicas.ts';
import type { Passed } from './checklist.ts';

/** Every one must answer; one without the champion in use is a warning, since the next promotion loads one anyway. */
export async function checkServing(
  retrain: NonNullable<Config['retrain']>,
  run: string,
): Promise<Passed<null>> {
  const { replicas, apiKeyEnv } = retrain.serve!;
  const urls = replicas.map(({ url }) => url);
  const found = await readReplicas(urls, null, run, serverKey(apiKeyEnv));
  const silent = found.filter(({ problem }) => problem !== null);
  if (silent.length > 0)
    throw new UserError(
      silent.map(({ url, problem }) => `${url}: ${problem}`).join('; '),
      'retrain.serve.replicas',
      'start them, or leave them out: a promotion needs every one',
    );
  const champion = currentChampion(registryAt(retrain.registry));
  const without = found.filter(({ adapters }) => champion !== null && !adapters.includes(champion));
  return {
    value: null,
    detail: `${found.length} answer${found.length === 1 ? 's' : ''}, champion ${champion ?? 'none yet'}`,
    ...(without.length > 0
      ? {
          warnings: without.map(
            ({ url }) => `${url} does not have the champion: load it with lexpo retrain <config> --serve`,
          ),
        }
      : {}),
  };
}
