/**
 * The adapters by name, as the routes know them. A name stands for one set of weights for as long as the
 * server lives: a name that comes back must come back with the same path and the same weights.
 */
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { isAbsolute, join, relative, resolve } from 'node:path';
import { ApiError, badRequest } from './api-error.ts';
import type { EngineClient } from './engine-client.ts';
import type { AdapterUid } from './protocol.ts';

export interface AdapterCard {
  name: string;
  /** As given at loading. */
  path: string;
  /** Unix seconds. */
  loadedAt: number;
}

export interface AdapterRegistry {
  /** Undefined: no such adapter is loaded. */
  uidOf(name: string): AdapterUid | undefined;
  load(name: string, path: string): Promise<void>;
  unload(name: string): void;
  cards(): AdapterCard[];
}

interface RegistryOptions {
  engine: Pick<EngineClient, 'load' | 'unload'>;
  /** Adapters are read only below this folder. */
  root: string;
  baseModel: string;
  maxAdapters: number;
  /** Unix seconds. */
  now(): number;
}

function isInside(root: string, path: string): boolean {
  const way = relative(root, path);
  return way !== '' && !isAbsolute(way) && way.split(/[\\/]/)[0] !== '..';
}

/**
 * The real folder behind `path`, which must lie below `root` with everything in it, symbolic links
 * followed. Judged by its spelling first, so that nothing is told about files elsewhere.
 */
function resolveAdapterFolder(root: string, path: string): string {
  const outside = () => badRequest(`'${path}' is not below the folder that adapters are served from`);
  if (!isAbsolute(path)) throw badRequest(`lora_path must be absolute, got '${path}'`, 'lora_path');
  const realRoot = realpathSync(root);
  const spelled = resolve(path);
  if (!isInside(resolve(root), spelled) && !isInside(realRoot, spelled)) throw outside();
  if (!existsSync(spelled)) throw new ApiError(404, 'NotFoundError', `No adapter found for ${path}`);
  const real = realpathSync(spelled);
  if (!isInside(realRoot, real)) throw outside();
  if (!statSync(real).isDirectory()) throw badRequest(`'${path}' is not a folder`, 'lora_path');
  for (const name of readdirSync(real)) {
    const file = join(real, name);
    if (!existsSync(file) || !isInside(realRoot, realpathSync(file))) throw outside();
  }
  return real;
}

export function createAdapterRegistry(options: RegistryOptions): AdapterRegistry {
  const { engine, root, baseModel, maxAdapters, now } = options;
  const loaded = new Map<string, AdapterCard & { uid: AdapterUid }>();
  const history = new Map<string, { path: string; fingerprint: string }>();
  const loading = new Set<string>();

  function checkName(name: string, path: string): void {
    if (name === baseModel) throw badRequest(`'${name}' is the base model's name`, 'lora_name');
    if (loaded.has(name)) {
      const message = `The lora adapter '${name}' has already been loaded. Its weights cannot be replaced: use a new name.`;
      throw new ApiError(400, 'InvalidUserInput', message, 'lora_name');
    }
    if (loading.has(name)) {
      throw new ApiError(400, 'InvalidUserInput', `The lora adapter '${name}' is being loaded.`, 'lora_name');
    }
    const before = history.get(name);
    if (before && before.path !== path) {
      const message = `The name '${name}' stood for ${before.path}: a name is never reused for other weights.`;
      throw badRequest(message, 'lora_name');
    }
    if (loaded.size + loading.size >= maxAdapters) {
      throw badRequest(`${maxAdapters} adapters are loaded already: unload one first`);
    }
  }

  return {
    uidOf: (name) => loaded.get(name)?.uid,
    async load(name, path) {
      checkName(name, path);
      const folder = resolveAdapterFolder(root, path);
      loading.add(name);
      try {
        const outcome = await engine.load(name, folder);
        if (outcome.kind === 'not-found') throw new ApiError(404, 'NotFoundError', outcome.message);
        if (outcome.kind === 'refused') throw badRequest(outcome.message);
        const before = history.get(name);
        if (before && before.fingerprint !== outcome.fingerprint) {
          engine.unload(outcome.adapter);
          throw badRequest(
            `The files of '${name}' have changed: a name is never reused for other weights.`,
            'lora_name',
          );
        }
        history.set(name, { path, fingerprint: outcome.fingerprint });
        loaded.set(name, { name, path, loadedAt: now(), uid: outcome.adapter });
      } finally {
        loading.delete(name);
      }
    },
    unload(name) {
      const adapter = loaded.get(name);
      if (!adapter) {
        throw new ApiError(404, 'NotFoundError', `The lora adapter '${name}' cannot be found.`, 'lora_name');
      }
      loaded.delete(name);
      engine.unload(adapter.uid);
    },
    cards: () => [...loaded.values()].map(({ name, path, loadedAt }) => ({ name, path, loadedAt })),
  };
}
