/** The contract at the embedded server and at the hostile endpoint's honest side; faults that it must find. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadTokenizer } from '../../src/rollout/tokenizer.ts';
import { type PolicyServer, startServer } from '../../src/serve/server.ts';
import {
  fakeModel,
  type HostileEndpoint,
  type Rule,
  startHostileEndpoint,
} from '../hostile-endpoint/hostile-endpoint.ts';
import { MAX_RANK, targetOf, writeAdapterFolders } from './adapter-folders.ts';
import { contractChecks } from './checks.ts';
import { type ContractTarget, type Outcome, runContract } from './contract.ts';

const MODEL = fileURLToPath(new URL('../../models/tiny', import.meta.url));
let folder: string;
let adapters: ContractTarget['adapters'];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-contract-'));
  adapters = await writeAdapterFolders(folder, MODEL);
});
afterAll(() => rmSync(folder, { recursive: true }));

const names = contractChecks.map(({ name }) => name);
const byName = (outcomes: Outcome[]) => Object.fromEntries(outcomes.map((one) => [one.name, one]));

it('its checks have names of their own', () => expect(new Set(names).size).toBe(names.length));

describe('the embedded server keeps the contract', () => {
  let server: PolicyServer;
  let outcomes: Record<string, Outcome>;
  beforeAll(async () => {
    server = await startServer({
      modelFolder: MODEL,
      adapterRoot: folder,
      servedModelName: 'base',
      maxLoraRank: MAX_RANK,
      threads: 1,
    });
    const promptIds = loadTokenizer(MODEL).encodeMarkup('租客不交房租');
    const target = { ...targetOf(MODEL), baseUrl: server.url, baseModel: 'base', promptIds, adapters };
    outcomes = byName(await runContract({ ...target, logprobs: 'processed' }, contractChecks));
  });
  afterAll(() => server.close());
  it.each(names)('%s', (name) => expect(outcomes[name]).toMatchObject({ kind: 'pass' }));
});

const hostileTarget = ({ url }: HostileEndpoint, logprobs: 'raw' | 'processed'): ContractTarget => ({
  baseUrl: url,
  baseModel: 'base',
  promptIds: [5, 6, 7, 9, 11],
  vocabSize: fakeModel.vocab,
  endId: fakeModel.endId,
  maxModelLen: 512,
  logprobs,
  adapters,
});

describe.each(['raw', 'processed'] as const)('the hostile endpoint, honest, keeps it: %s', (logprobs) => {
  let outcomes: Record<string, Outcome>;
  beforeAll(async () => {
    const server = await startHostileEndpoint([], { logprobs });
    outcomes = byName(await runContract(hostileTarget(server, logprobs), contractChecks));
    await server.close();
  });
  it.each(names)('%s', (name) => expect(outcomes[name]).toMatchObject({ kind: 'pass' }));
});

describe('a server that breaks it is found out', () => {
  const FAULTS: [Rule, RegExp][] = [
    [{ route: 'health', fault: { kind: 'status', status: 503 } }, /health/],
    [{ route: 'completions', fault: { kind: 'lie', lie: 'usage' } }, /ids in, ids out/],
    [{ route: 'completions', fault: { kind: 'lie', lie: 'other-prompt-ids' } }, /ids in, ids out/],
    [{ route: 'completions', fault: { kind: 'lie', lie: 'other-model' } }, /ids in, ids out/],
    [{ route: 'completions', fault: { kind: 'lie', lie: 'logprob-missing' } }, /one finite/],
    [{ route: 'completions', fault: { kind: 'lie', lie: 'logprob-nan' } }, /one finite/],
    [{ route: 'completions', fault: { kind: 'lie', lie: 'logprob-positive' } }, /one finite/],
    [{ route: 'load', fault: { kind: 'load-as-base' } }, /adapters change/],
    [{ route: 'load', fault: { kind: 'load-as-previous' } }, /adapters change/],
    [{ route: 'load', fault: { kind: 'load-unlisted' } }, /plain text/],
    [{ route: 'load', fault: { kind: 'load-wrong-root' } }, /plain text/],
    [{ route: 'load', fault: { kind: 'load-ignored' } }, /after an unload/],
    [{ route: 'score', probability: 0.5, fault: { kind: 'answer-as-base' } }, /answer names the adapter/],
  ];
  it.each(FAULTS)('%j', async (rule, name) => {
    const server = await startHostileEndpoint([rule]);
    const checks = contractChecks.filter((check) => name.test(check.name));
    expect(checks.length).toBe(1);
    // A fault that comes by chance has its chances.
    const tries = rule.probability === undefined ? 1 : 8;
    const outcomes: Outcome[] = [];
    for (let i = 0; i < tries; i++)
      outcomes.push(...(await runContract(hostileTarget(server, 'raw'), checks)));
    await server.close();
    expect(outcomes).toContainEqual(expect.objectContaining({ kind: 'breach' }));
  });

  it('a breach that is known of a server is told with its reason', async () => {
    const server = await startHostileEndpoint([
      { route: 'health', nth: 1, fault: { kind: 'status', status: 503 } },
    ]);
    const checks = contractChecks.slice(0, 1);
    const known = { [names[0]!]: 'it sleeps' };
    for (const kind of ['known', 'pass'])
      expect(await runContract(hostileTarget(server, 'raw'), checks, known)).toMatchObject([{ kind }]);
    await server.close();
  });

  it('log-probabilities of the other kind', async () => {
    const server = await startHostileEndpoint([], { logprobs: 'raw' });
    const checks = contractChecks.filter(({ name }) => name.includes('raw or processed'));
    const [outcome] = await runContract(hostileTarget(server, 'processed'), checks);
    expect(outcome).toMatchObject({ kind: 'breach', detail: expect.stringContaining('not processed') });
    await server.close();
  });
});
