/**
 * What a server has to be able to do before a run is trusted to it: asked once at the start, of every replica,
 * and every problem told at once. A server that only looks right costs a run; these questions cost seconds.
 */
import { messageOf, UserError } from '../base/errors.ts';
import type { Endpoint, ModelCard } from './endpoint.ts';
import { sameIds } from './endpoint-answer.ts';
import { largestGap, type ServedAdapter } from './proof.ts';
import { loadOn, serverPath, unloadFrom } from './replica-adapters.ts';
import type { ReplicaOptions, Timer } from './rotation.ts';
import type { TextTokenizer } from './tokenizer.ts';

export interface Needs {
  /** The id of the base model; undefined: the only one listed without a parent. */
  model: string | undefined;
  /** Tokens of the longest prompt and output that a call may have. */
  maxCallTokens: number;
  logprobs: 'raw' | 'processed';
  /** Sampling temperature of training: at 1 both modes are the same. */
  temperature: number;
  tokenizer: Pick<TextTokenizer, 'encodeMarkup' | 'controlTokens'>;
  /** Ids of some text, at least 2: what is asked about. */
  probeIds: number[];
  /** Largest |Δ log-probability| (nats) between replicas. */
  tolerance: number;
  /** An adapter of the run's shape that moves every log-probability far; null: none will be served. */
  probe: { adapter: ServedAdapter; rank: number } | null;
}

/** The values of vLLM's --max-lora-rank. */
const RANKS = [1, 8, 16, 32, 64, 128, 256, 320, 512];
/** A probe adapter that does not move any log-probability by this much (nats) is not applied. */
const MOVED = 0.05;

interface Findings {
  problems: string[];
  notes: string[];
  baseModel: string | null;
  version: string | null;
  /** Of the probe by the base model, `[probeIds.length − 1]`. */
  base: number[] | null;
}

/**
 * Asks every replica. Gives the id of the base model, and lines worth telling.
 *
 * @throws UserError with every problem of every replica.
 */
export async function checkReplicas(
  replicas: readonly ReplicaOptions[],
  needs: Needs,
  timer: Timer,
): Promise<{ baseModel: string; notes: string[] }> {
  const found = await Promise.all(replicas.map((replica) => examine(replica, needs, timer)));
  const problems = found.flatMap(({ problems }, i) =>
    problems.map((what) => `${replicas[i]!.name}: ${what}`),
  );
  problems.push(...disagreements(replicas, found, needs));
  if (problems.length > 0)
    throw new UserError(
      `${problems.length === 1 ? '1 problem' : `${problems.length} problems`}\n  ${problems.join('\n  ')}`,
      'policy endpoint',
      'nothing was trained; correct the servers (or the section endpoint) and start again',
    );
  const notes = found.flatMap(({ notes, version }, i) => [
    `${replicas[i]!.name}: version ${version ?? 'not told'}`,
    ...notes.map((note) => `${replicas[i]!.name}: ${note}`),
  ]);
  return { baseModel: found[0]!.baseModel!, notes };
}

/** Replicas that are not servers of one model. */
function disagreements(
  replicas: readonly ReplicaOptions[],
  found: readonly Findings[],
  needs: Needs,
): string[] {
  const first = found.findIndex(({ base }) => base !== null);
  return found.flatMap(({ base, baseModel }, i) => {
    if (i <= first || base === null) return [];
    const { name } = replicas[i]!;
    const other = found[first]!;
    if (baseModel !== other.baseModel)
      return [
        `${name}: lists its base model as ${baseModel}, ${replicas[first]!.name} as ${other.baseModel}`,
      ];
    const gap = largestGap(base, other.base!);
    return gap <= needs.tolerance
      ? []
      : [
          `${name}: serves another base model than ${replicas[first]!.name}: log-probabilities ${gap.toPrecision(2)} nats apart`,
        ];
  });
}

async function examine(replica: ReplicaOptions, needs: Needs, timer: Timer): Promise<Findings> {
  const { endpoint } = replica;
  const findings: Findings = { problems: [], notes: [], baseModel: null, version: null, base: null };
  /** Runs one check; what it throws is a problem. */
  const check = async (what: string, run: () => Promise<string | null>): Promise<boolean> => {
    const problem = await run().catch((error: unknown) => `${what}: ${short(error)}`);
    if (problem !== null) findings.problems.push(problem);
    return problem === null;
  };
  const alive = await check('does not answer', async () => {
    await endpoint.health();
    return null;
  });
  if (!alive) return findings;
  findings.version = await endpoint.version().catch(() => null);
  await check('does not list its models', async () => {
    const card = baseCard(await endpoint.listModels(), needs.model);
    if (typeof card === 'string') return card;
    findings.baseModel = card.id;
    const { maxModelLen } = card;
    return maxModelLen === null || maxModelLen >= needs.maxCallTokens
      ? null
      : `takes ${maxModelLen} tokens of prompt and output, a call may need ${needs.maxCallTokens} (learner.maxTreeTokens): start it with --max-model-len ${needs.maxCallTokens}`;
  });
  const { baseModel } = findings;
  if (baseModel === null) return findings;
  await check('its tokenizer cannot be asked (/tokenize)', () =>
    tokenizerProblem(endpoint, baseModel, needs),
  );
  const scored = await check('gives no log-probabilities of a prompt (prompt_logprobs)', async () => {
    findings.base = await endpoint.promptLogprobs(baseModel, needs.probeIds);
    return null;
  });
  if (scored)
    await check('gives no usable sample', async () => {
      const mode = await logprobsMode(endpoint, baseModel, needs.probeIds);
      return modeProblem(mode, needs, findings.notes);
    });
  const { probe } = needs;
  if (probe && scored)
    await check(`does not serve an adapter of rank ${probe.rank}`, () =>
      adapterProblem(replica, probe, needs.probeIds, findings.base!, timer),
    );
  return findings;
}

const short = (error: unknown): string => messageOf(error).replaceAll('\n', ' ');

/** The base model's card, or what is wrong. */
function baseCard(cards: readonly ModelCard[], model: string | undefined): ModelCard | string {
  const bases = cards.filter(({ parent }) => parent === null);
  const names = bases.map(({ id }) => id).join(', ') || 'none';
  if (model !== undefined)
    return bases.find(({ id }) => id === model) ?? `does not list ${model} (endpoint.model); it has ${names}`;
  return bases.length === 1 ? bases[0]! : `lists several base models (${names}): name one in endpoint.model`;
}

/** Chinese, emoji, markup that is a control token and markup that only looks like one, white space. */
function tokenizerTexts(controlTokens: TextTokenizer['controlTokens']): string[] {
  const [first] = controlTokens;
  return [
    'The tenant may terminate the lease.',
    '用人单位自用工之日起即与劳动者建立劳动关系。',
    '🙂👩‍👩‍👧 ½ ﬁ',
    `a${first?.content ?? '<|x|>'}b <|not_a_token|> </s>`,
    '  two  spaces\tand\n\nlines \n',
    '{"action":"plan","queries":["a","b"]}',
  ];
}

async function tokenizerProblem(
  endpoint: Endpoint,
  model: string,
  { tokenizer }: Needs,
): Promise<string | null> {
  for (const text of tokenizerTexts(tokenizer.controlTokens)) {
    const [here, there] = [tokenizer.encodeMarkup(text), await endpoint.tokenize(model, text)];
    if (!sameIds(here, there))
      return `its tokenizer is not that of model.path: ${JSON.stringify(text)} is [${here}] here, [${there}] there`;
  }
  return null;
}

/**
 * Samples at temperature 0.5 and asks for the same tokens' log-probabilities at temperature 1: equal ones are
 * raw. Null where the distribution is so flat, or so sharp, that both are the same.
 */
async function logprobsMode(
  endpoint: Endpoint,
  model: string,
  probeIds: number[],
): Promise<'raw' | 'processed' | null> {
  const promptIds = probeIds.slice(0, Math.max(1, Math.floor(probeIds.length / 2)));
  const temperature = 0.5;
  let apart = 0;
  let least = 0;
  for (let seed = 1; seed <= 4; seed++) {
    const call = { model, promptIds, maxTokens: 1, temperature, seed, stopTokenIds: [] };
    const { outputIds, logprobs } = await endpoint.complete(call);
    const raw = (await endpoint.promptLogprobs(model, [...promptIds, ...outputIds])).at(-1)!;
    apart = Math.max(apart, Math.abs(logprobs[0]! - raw));
    least = Math.min(least, raw);
  }
  if (apart > 0.05) return 'processed';
  return least < -0.1 ? 'raw' : null;
}

function modeProblem(
  mode: 'raw' | 'processed' | null,
  { logprobs, temperature }: Needs,
  notes: string[],
): string | null {
  if (mode === null) notes.push('raw and processed log-probabilities cannot be told apart on the probe');
  if (mode === null || mode === logprobs) return null;
  if (temperature === 1) {
    notes.push(
      `its log-probabilities are ${mode}, endpoint.logprobs says ${logprobs}: the same at temperature 1`,
    );
    return null;
  }
  return `its log-probabilities are ${mode}, endpoint.logprobs says ${logprobs}: start it with --logprobs-mode ${logprobs}_logprobs`;
}

/** Loads the probe adapter, looks whether it acts, and takes it away again. */
async function adapterProblem(
  replica: ReplicaOptions,
  { adapter, rank }: NonNullable<Needs['probe']>,
  probeIds: number[],
  base: readonly number[],
  timer: Timer,
): Promise<string | null> {
  const { endpoint } = replica;
  const wait = (ms: number): Promise<void> => new Promise((resolve) => void timer.after(ms, resolve));
  try {
    await loadOn(replica, adapter, wait);
  } catch (error) {
    const enough = RANKS.find((allowed) => allowed >= rank);
    const hint = /rank/i.test(messageOf(error)) && enough ? `: start it with --max-lora-rank ${enough}` : '';
    return `does not load an adapter of rank ${rank}${hint}: ${short(error)}`;
  }
  try {
    const card = (await endpoint.listModels()).find(({ id }) => id === adapter.name);
    if (!card) return 'loads an adapter but does not list it';
    const served = await endpoint.promptLogprobs(adapter.name, probeIds);
    return largestGap(base, served) > MOVED
      ? null
      : `loads an adapter from ${serverPath(replica, adapter.folder)} but answers as without it: its weights' names are not those that this server looks for`;
  } finally {
    await unloadFrom(replica, adapter.name);
  }
}
