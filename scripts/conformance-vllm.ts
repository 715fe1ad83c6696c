/**
 * `npm run conformance:vllm`: lexpo against a real vLLM on the CPU. Sampler and learner log-probabilities, the
 * contract of test/contract, and ten GRPO steps with adapters loaded as they are trained. Writes
 * docs/conformance-vllm.md; the last line is one JSON object; exit code 1 when something fails. Skips, with the
 * reason, where there is no Python or vLLM cannot be installed (conformance-vllm/environment.ts).
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { UserError } from '../src/base/errors.ts';
import { writeAdapter } from '../src/engine/peft.ts';
import { createEndpoint } from '../src/rollout/endpoint.ts';
import { loadTokenizer } from '../src/rollout/tokenizer.ts';
import { MAX_RANK, targetOf, writeAdapterFolders } from '../test/contract/adapter-folders.ts';
import { contractChecks } from '../test/contract/checks.ts';
import { type ContractTarget, runContract } from '../test/contract/contract.ts';
import { promptsOf } from './bench-serve/workload.ts';
import { vllmEnvironment } from './conformance-vllm/environment.ts';
import { measureMismatch, openLearner, trainedAdapter } from './conformance-vllm/mismatch.ts';
import { failures, lastLine, type Results, report, type Server } from './conformance-vllm/report.ts';
import { BASE_MODEL, serverArguments, startVllm, type VllmServer } from './conformance-vllm/serve.ts';
import { trainOn } from './conformance-vllm/train.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const REPORT = join(ROOT, 'docs/conformance-vllm.md');
const MODEL = 'models/tiny';
const TEMPERATURES = [1, 0.7];
const RAW_OR_PROCESSED = 'log-probabilities at a temperature are raw or processed, as the server was started';

/** Breaches that are the build's own. */
const KNOWN = {
  'the base model in one batch with adapters answers what it answers alone':
    'the CPU kernels index the adapters’ slots with the −1 that stands for "no adapter", which is the last slot: in a batch of more than one request the base model answers with the weights of whatever lies there. Adapters are not touched, and lexpo samples from adapters only; the base model is asked once, before any is loaded.',
};

async function conformance(): Promise<void> {
  process.chdir(ROOT);
  const environment = vllmEnvironment(console.log);
  if ('skip' in environment) {
    console.log(`conformance:vllm skipped: ${environment.skip}`);
    return;
  }
  const scratch = mkdtempSync(join(tmpdir(), 'lexpo-vllm-'));
  process.once('exit', () => rmSync(scratch, { recursive: true, force: true }));
  const results = await measure(environment.python, environment.versions, scratch);
  writeFileSync(REPORT, report(results));
  const wrong = failures(results);
  for (const one of wrong) console.log(`FAIL ${one}`);
  console.log('written to docs/conformance-vllm.md');
  console.log(lastLine(results));
  if (wrong.length > 0) process.exitCode = 1;
}

async function measure(python: string, versions: Record<string, string>, scratch: string): Promise<Results> {
  const adapters = join(scratch, 'adapters');
  mkdirSync(adapters);
  const policy = trainedAdapter(MODEL);
  await writeAdapter(join(adapters, 'policy'), policy, { baseModel: MODEL });
  const contractAdapters = await writeAdapterFolders(adapters, MODEL);
  const subject = { name: 'tiny', folder: MODEL, config: 'quickstart.yaml', prompts: 24, newTokens: 48 };
  const prompts = await promptsOf(subject);
  const logFile = join(scratch, 'vllm.log');
  const options = { model: MODEL, maxLoraRank: MAX_RANK, logFile };

  /** Starts a server, measures sampler against learner on it while it is fresh, and goes on with `use`. */
  async function on<T>(
    server: Server & { dtype: 'float32' | 'bfloat16' },
    use: (at: VllmServer) => Promise<T>,
  ) {
    console.log(`vLLM with ${server.dtype}, ${server.logprobs} log-probabilities …`);
    const vllm = await startVllm(python, { ...options, ...server });
    const learner = await openLearner(MODEL, policy);
    try {
      console.log('comparing sampler and learner …');
      const endpoint = createEndpoint({ baseUrl: vllm.url, deadlineMs: 600_000, maxConcurrent: 1 });
      const models = { base: BASE_MODEL, adapter: 'policy' };
      const load = () => endpoint.loadAdapter('policy', join(adapters, 'policy'));
      const found = await measureMismatch(vllm.url, models, load, learner, prompts, TEMPERATURES);
      await endpoint.unloadAdapter('policy');
      return { mismatch: { server, found }, used: await use(vllm) };
    } catch (error) {
      // What the engine said last explains what the client saw.
      console.error(readFileSync(logFile, 'utf8').trim().split('\n').slice(-30).join('\n'));
      throw error;
    } finally {
      await learner.close();
      await vllm.close();
    }
  }
  const target = ({ url }: VllmServer, logprobs: Server['logprobs']): ContractTarget => ({
    ...targetOf(MODEL),
    baseUrl: url,
    baseModel: BASE_MODEL,
    promptIds: loadTokenizer(MODEL).encodeMarkup('租客不交房租'),
    adapters: contractAdapters,
    logprobs,
  });

  const raw = await on({ dtype: 'float32', logprobs: 'raw' }, async (vllm) => {
    const training = await trainOn(vllm.url, MODEL, join(scratch, 'runs'), console.log);
    const contract = await runContract(target(vllm, 'raw'), contractChecks, KNOWN);
    for (const { kind, name, detail } of contract) console.log(`${kind.padEnd(6)} ${name}: ${detail}`);
    return { training, contract };
  });
  const processed = await on({ dtype: 'float32', logprobs: 'processed' }, async (vllm) => {
    const checks = contractChecks.filter(({ name }) => name === RAW_OR_PROCESSED);
    return runContract(target(vllm, 'processed'), checks);
  });
  const half = await on({ dtype: 'bfloat16', logprobs: 'raw' }, async () => null);
  return {
    versions: { ...versions, node: process.version },
    arguments: serverArguments({ model: MODEL, dtype: 'float32', logprobs: 'raw', maxLoraRank: MAX_RANK }),
    contract: raw.used.contract,
    modes: processed.used.map((outcome) => ({ server: processed.mismatch.server, outcome })),
    mismatch: [raw.mismatch, processed.mismatch, half.mismatch],
    training: raw.used.training,
  };
}

// The server is a group of processes of its own: it ends when this one exits, not by the terminal's signal.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(130));
try {
  await conformance();
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(`conformance:vllm: ${error.message}`);
  process.exitCode = 1;
}
