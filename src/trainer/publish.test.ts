import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import { readAdapter } from '../engine/peft.ts';
import { copyAdapter } from '../engine/tensors.ts';
import type { Adapter } from '../engine/types.ts';
import { type Endpoint, RolloutFailure } from '../rollout/endpoint.ts';
import type { Learner } from './learner/learner.ts';
import { PROOF_TOLERANCE, type PublishTarget, publish } from './publish.ts';
import { BASE_MODEL, createTableLearner, freshState, tableAdapter, tableModel } from './test-support.ts';
import { createTableEndpoint, type TableEndpoint, tableReplicas } from './test-support-rollout.ts';

const model = tableModel(6, 1);
let root = '';
let endpoint: TableEndpoint;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'lexpo-publish-'));
  endpoint = createTableEndpoint(model);
});
afterEach(() => rmSync(root, { recursive: true }));

const target = (change: Partial<Endpoint> = {}, tolerance = PROOF_TOLERANCE): PublishTarget => ({
  replicas: tableReplicas({ ...endpoint, ...change }, tolerance),
  adapterRoot: root,
  runName: 'run',
  baseModel: BASE_MODEL,
  probeIds: [1, 4, 2, 3, 5, 1],
});
const learnerOf = (adapter: Adapter): Learner => createTableLearner(model, freshState(adapter));
/** Publishes an adapter that the learner holds too. */
const put = (adapter: Adapter, version: number, change: Partial<Endpoint> = {}) =>
  publish(target(change), learnerOf(adapter), adapter, version);
const problemOf = (publishing: Promise<unknown>): Promise<unknown> =>
  publishing.then(
    () => 'published',
    (error) => error.problem ?? error,
  );
const first = tableAdapter(model, 0.5, 1);
const second = tableAdapter(model, 0.5, 2);

describe('the name', () => {
  it('is <run>-v<version>, a folder of its own that holds exactly the tensors, loaded by absolute path', async () => {
    let loadedFrom = '';
    const policy = await put(first, 4, {
      loadAdapter: async (name, path) => {
        loadedFrom = path;
        await endpoint.loadAdapter(name, path);
      },
    });
    expect(policy).toEqual({ version: 4, model: 'run-v4' });
    expect(loadedFrom).toBe(join(root, 'run-v4'));
    expect(readAdapter(join(root, 'run-v4'))).toEqual(first);
    expect(readdirSync(root)).toEqual(['run-v4']);
    expect(endpoint.resident()).toEqual(['run-v4']);
  });

  it('is never used again for other weights: the next free suffix, the old folder untouched', async () => {
    await put(first, 4);
    const before = readFileSync(join(root, 'run-v4', 'adapter_model.safetensors'));
    expect((await put(second, 4)).model).toBe('run-v4-r2');
    expect((await put(tableAdapter(model, 0.5, 3), 4)).model).toBe('run-v4-r3');
    expect(readFileSync(join(root, 'run-v4', 'adapter_model.safetensors')).equals(before)).toBe(true);
    expect(readAdapter(join(root, 'run-v4-r2'))).toEqual(second);
  });

  it('is that of the folder that holds the same tensors already, which is not written again', async () => {
    await put(first, 4);
    await put(second, 4);
    const dates = () =>
      ['run-v4', 'run-v4-r2'].map((name) => readFileSync(join(root, name, 'adapter_config.json')));
    const before = dates();
    // A resumed run, on an endpoint that has nothing loaded.
    endpoint = createTableEndpoint(model);
    expect((await put(first, 4)).model).toBe('run-v4');
    expect((await put(second, 4)).model).toBe('run-v4-r2');
    expect(dates()).toEqual(before);
    expect(endpoint.log.filter((line) => line.startsWith('load'))).toEqual(['load run-v4', 'load run-v4-r2']);
    expect(readdirSync(root)).toHaveLength(2);
  });

  it('takes one value in the last bit, and another scale, for other weights', async () => {
    await put(first, 4);
    const bit = copyAdapter(first);
    const data = [...bit.tensors.values()][1]!.data;
    data[7] = data[7]! * (1 + 2 ** -23);
    expect((await put(bit, 4)).model).toBe('run-v4-r2');
    const louder = { spec: { ...first.spec, alpha: first.spec.alpha * 2 }, tensors: first.tensors };
    expect((await put(louder, 4)).model).toBe('run-v4-r3');
    expect(readAdapter(join(root, 'run-v4-r3')).spec.alpha).toBe(first.spec.alpha * 2);
  });

  it('of a folder that cannot be read is taken: the next free suffix', async () => {
    await put(first, 4);
    writeFileSync(join(root, 'run-v4', 'adapter_model.safetensors'), 'torn');
    expect((await put(first, 4)).model).toBe('run-v4-r2');
    expect(readAdapter(join(root, 'run-v4-r2'))).toEqual(first);
  });

  it('a policy without finite log-probabilities is a clear error, and nothing is written', async () => {
    const wild = tableAdapter(model, 0.5);
    [...wild.tensors.values()][1]!.data.fill(Number.NaN);
    const failure = put(wild, 4);
    await expect(failure).rejects.toThrow(/run-v4: .*not finite.*\n.*learningRate/);
    await expect(failure).rejects.toBeInstanceOf(UserError);
    expect(readdirSync(root)).toEqual([]);
  });

  it('a temporary folder of a killed run does no harm', async () => {
    mkdirSync(join(root, `.run-v4.tmp-${process.pid}`));
    writeFileSync(join(root, `.run-v4.tmp-${process.pid}`, 'adapter_model.safetensors'), 'half');
    expect((await put(first, 4)).model).toBe('run-v4');
    expect(readAdapter(join(root, 'run-v4'))).toEqual(first);
  });
});

describe('the proof', () => {
  it('refuses an adapter that is loaded with a 200 but not listed', async () => {
    const listModels = async () => (await endpoint.listModels()).filter(({ id }) => id === BASE_MODEL);
    expect(await problemOf(put(first, 1, { listModels }))).toBe('not-listed');
  });

  it('refuses a name that is served from another folder, and takes a server that tells none', async () => {
    await put(second, 1);
    cpSync(join(root, 'run-v1'), join(root, 'elsewhere'), { recursive: true });
    const listed = (rootOf: string | null) => async () =>
      (await endpoint.listModels()).map((card) => (card.id === 'run-v2' ? { ...card, root: rootOf } : card));
    expect(await problemOf(put(first, 2, { listModels: listed(join(root, 'elsewhere')) }))).toBe(
      'wrong-root',
    );
    expect(await problemOf(put(first, 2, { listModels: listed(null) }))).toBe('published');
  });

  it('names the base model when the base model answers', async () => {
    const promptLogprobs = (_: string, ids: number[]) => endpoint.promptLogprobs(BASE_MODEL, ids);
    expect(await problemOf(put(first, 1, { promptLogprobs }))).toBe('equals-base');
  });

  it('refuses an older adapter under the new name', async () => {
    await put(first, 1);
    const promptLogprobs = (_: string, ids: number[]) => endpoint.promptLogprobs('run-v1', ids);
    expect(await problemOf(put(second, 2, { promptLogprobs }))).toBe('differs-from-learner');
  });

  it('accepts a difference within the tolerance at every position, and none beyond it, in either direction', async () => {
    const shifted = (by: number, at: number) => async (name: string, ids: number[]) =>
      (await endpoint.promptLogprobs(name, ids)).map((x, i) => (i === at ? x + by : x));
    for (const at of [0, 2, 4]) {
      for (const sign of [1, -1]) {
        const near = shifted(sign * 0.9 * PROOF_TOLERANCE, at);
        const far = shifted(sign * 1.1 * PROOF_TOLERANCE, at);
        expect(await problemOf(put(first, 1, { promptLogprobs: near }))).toBe('published');
        expect(await problemOf(put(first, 1, { promptLogprobs: far }))).toBe('differs-from-learner');
      }
    }
  });

  it('under a wider tolerance: takes the noise of half precision, and still tells policy from base model', async () => {
    const random = stream(1, 'noise');
    const loose = 0.25;
    const noisy = (model?: string) => async (name: string, ids: number[]) =>
      (await endpoint.promptLogprobs(model ?? name, ids)).map((x) => x + 0.02 * random.normal());
    const putLoose = (adapter: Adapter, promptLogprobs: Endpoint['promptLogprobs']) =>
      problemOf(publish(target({ promptLogprobs }, loose), learnerOf(adapter), adapter, 1));
    // Far from the base model, near it, hardly apart, and the same.
    for (const spread of [0.5, 0.05, 0.002, 0]) {
      const adapter = tableAdapter(model, spread);
      for (let i = 0; i < 20; i++) expect(await putLoose(adapter, noisy()), `${spread}`).toBe('published');
    }
    for (const spread of [0.5, 0.2])
      expect(await putLoose(tableAdapter(model, spread), noisy(BASE_MODEL)), `${spread}`).toBe('equals-base');
    const far = async (name: string, ids: number[]) =>
      (await endpoint.promptLogprobs(name, ids)).map((x) => x - 0.3);
    expect(await putLoose(first, far)).toBe('differs-from-learner');
  });

  it('refuses an answer that is not a number, or that lacks positions', async () => {
    const answers = [[], [-1], [-1, -1, -1, -1, Number.NaN]];
    for (const answer of answers)
      expect(await problemOf(put(first, 1, { promptLogprobs: async () => answer }))).toBe(
        'differs-from-learner',
      );
  });

  it('does not ask a no-op (B = 0) to differ from the base model', async () => {
    const noOp = tableAdapter(model, 0);
    expect(await problemOf(put(noOp, 0))).toBe('published');
  });

  it('does not take an adapter for a no-op because its A is zero somewhere', async () => {
    const promptLogprobs = (_: string, ids: number[]) => endpoint.promptLogprobs(BASE_MODEL, ids);
    const sparse = tableAdapter(model, 0);
    // One entry of B, on a pair that the probe has: after 4 comes 2.
    [...sparse.tensors.values()][1]!.data[2 * 6 + 4] = 1;
    expect(await problemOf(put(sparse, 1, { promptLogprobs }))).toBe('equals-base');
  });

  it('one message says which adapter, what is wrong, and that the old version stays', async () => {
    const listModels = async () => [];
    await expect(put(first, 3, { listModels })).rejects.toThrow(
      /adapter run-v3.*not list it\n.*old version stays/s,
    );
  });
});

describe('an endpoint that fails', () => {
  it('lets a failed load through as it is, before anything is proved, and the old adapter answers on', async () => {
    const policy = await put(first, 1);
    const failure = new RolloutFailure('http', 'out of memory', 400);
    let proofs = 0;
    const failing = put(second, 2, {
      loadAdapter: async () => {
        throw failure;
      },
      promptLogprobs: async (...args) => {
        proofs++;
        return endpoint.promptLogprobs(...args);
      },
    });
    await expect(failing).rejects.toBe(failure);
    expect(proofs).toBe(0);
    expect(endpoint.resident()).toEqual(['run-v1']);
    expect(await endpoint.promptLogprobs(policy.model, [1, 2])).toHaveLength(1);
    // The folder is whole: publishing again uses it.
    expect((await put(second, 2)).model).toBe('run-v2');
  });

  it('lets a failed listing and a failed probe through', async () => {
    const failure = new RolloutFailure('connection', 'reset');
    const fail = async (): Promise<never> => {
      throw failure;
    };
    await expect(put(first, 1, { listModels: fail })).rejects.toBe(failure);
    await expect(put(first, 1, { promptLogprobs: fail })).rejects.toBe(failure);
  });

  it('loads nothing when the adapter cannot be written', async () => {
    writeFileSync(join(root, 'file'), '');
    const failing = publish(
      { ...target(), adapterRoot: join(root, 'file', 'x') },
      learnerOf(first),
      first,
      1,
    );
    await expect(failing).rejects.toThrow();
    expect(endpoint.log).toEqual([]);
    expect(existsSync(join(root, 'run-v1'))).toBe(false);
  });
});
