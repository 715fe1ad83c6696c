/** Rules across fields of the configuration. They are checked together with the fields themselves. */
import { serverRoot } from '../rollout/server-root.ts';

/** Something wrong at a path, with what is allowed there. */
export interface RuleBreak {
  path: string[];
  message: string;
}

/**
 * Every broken rule of `config`, which may be anything: a rule whose fields are missing or of another type
 * stays silent, because the fields' own errors say so already.
 */
export function brokenRules(config: unknown): RuleBreak[] {
  const broken: RuleBreak[] = [];
  const number = (path: string): number => {
    const value = valueAt(config, path);
    return typeof value === 'number' ? value : Number.NaN;
  };
  const text = (path: string): string | undefined => {
    const value = valueAt(config, path);
    return typeof value === 'string' ? value : undefined;
  };
  const rule = (isBroken: boolean, path: string, message: string) => {
    if (isBroken) broken.push({ path: path.split('.'), message });
  };
  const atMost = (path: string, limit: string) =>
    rule(number(path) > number(limit), path, `must be at most ${limit} (${number(limit)})`);
  const atLeast = (path: string, limit: string) =>
    rule(number(path) < number(limit), path, `must be at least ${limit} (${number(limit)})`);

  atMost('rollout.minGroup', 'rollout.groupSize');
  atMost('retrieval.keep', 'retrieval.topK');
  atMost('eval.k', 'env.poolLimit');
  atMost('reward.recallAt', 'env.poolLimit');
  atLeast('learner.tokensPerPass', 'learner.maxTreeTokens');
  const kindOf = (section: string) => {
    const absent = valueAt(config, section) !== null && valueAt(config, `${section}.kind`) === undefined;
    return absent ? 'malr' : text(`${section}.kind`);
  };
  const [kind, rewarded] = [kindOf('env'), kindOf('reward')];
  rule(
    kind !== undefined && rewarded !== undefined && kind !== rewarded,
    'reward.kind',
    `must be ${kind}, as env.kind is`,
  );
  for (const path of ['eval.metric', 'retrain.promote.metric'])
    rule(
      kind === 'malr' && ['answerAccuracy', 'evidenceRecall'].includes(text(path) ?? ''),
      path,
      'must be recall, mrr or ndcg: only the Lawyer (env.kind lawyer) answers',
    );
  rule(
    kind === 'malr' && valueAt(config, 'data.import.withoutGold') === true,
    'data.import.withoutGold',
    'must be false: only the Lawyer (env.kind lawyer) learns from questions without gold',
  );
  const callers = kind === 'lawyer' ? ['lawyer'] : kind === 'malr' ? ['planner', 'rewriter'] : [];
  for (const path of callers.map((caller) => `rollout.maxTokens.${caller}`)) {
    const limit = number('learner.maxTreeTokens');
    rule(
      number(path) >= limit,
      path,
      `must be below learner.maxTreeTokens (${limit}): the prompt needs room too`,
    );
  }
  rule(
    number('retrieval.anchor.original') === 0 && number('retrieval.anchor.rewrite') === 0,
    'retrieval.anchor',
    'original and rewrite must not both be 0: nothing would be searched',
  );
  rule(
    text('loss.kind') === 'gspo' && text('loss.importance.level') === 'token',
    'loss.importance.level',
    'must be sequence with loss.kind gspo, whose one ratio for a sample leaves no token out',
  );
  rule(
    text('endpoint.kind') === 'vllm' &&
      (text('endpoint.logprobs') ?? 'raw') === 'raw' &&
      !Number.isNaN(number('rollout.temperature')) &&
      number('rollout.temperature') !== 1,
    'endpoint.logprobs',
    'must be processed (vllm serve --logprobs-mode processed_logprobs), or rollout.temperature 1: raw ones are not those of the distribution that is sampled',
  );
  for (const name of ['messages', 'add_generation_prompt'])
    rule(
      valueAt(config, `model.chatTemplate.${name}`) !== undefined,
      `model.chatTemplate.${name}`,
      'must be left out: every prompt is rendered with its own',
    );
  rule(
    number('train.maxStaleness') > 0 && text('loss.importance.mode') === 'none',
    'loss.importance.mode',
    'must be mask or truncate with train.maxStaleness above 0: samples of an older policy would count as those of the current one',
  );
  narrowingRules(rule, number, text);
  const replicas = valueAt(config, 'endpoint.replicas');
  const addresses = (Array.isArray(replicas) ? replicas : []).map((replica) => {
    const url = valueAt(replica, 'url');
    return typeof url === 'string' ? serverRoot(url) : replica;
  });
  rule(
    new Set(addresses).size < addresses.length,
    'endpoint.replicas',
    'must be different servers: one address stands there twice',
  );
  for (const section of ['pool.redis', 'retrain.redis'])
    rule(
      text(`${section}.url`) !== undefined && text(`${section}.urlEnv`) !== undefined,
      `${section}.urlEnv`,
      `must be left out where ${section}.url is given: both name the server`,
    );
  atMost('pool.jobDeadlineMs', 'pool.groupDeadlineMs');
  const train = text('data.train');
  rule(
    train !== undefined && train === text('data.validation'),
    'data.validation',
    'must be another file than data.train: held-out figures would mean nothing',
  );
  rule(
    number('sft.share') === 0,
    'sft.share',
    'must be above 0; to start from a fresh adapter leave the whole section sft out',
  );
  return broken;
}

/**
 * Top-p and top-k together with the importance correction, whose ratio is learner over sampler. With N the tokens
 * that are kept, of mass Z ≥ topP under the sampled distribution p:
 *
 *   raw log-probabilities are those of p, though N is what is sampled: the ratio is 1 and corrects nothing;
 *   processed ones are those of p / Z on N: the ratio is Z, the true one for a token of N. Over a sample it is
 *   the product of its tokens' Z, 0.95⁶⁴ = 0.04: long samples would hardly count. Token by token it stays
 *   within [topP, 1], and all that is lost is what no sample can show, the tokens outside N.
 */
function narrowingRules(
  rule: (isBroken: boolean, path: string, message: string) => void,
  number: (path: string) => number,
  text: (path: string) => string | undefined,
): void {
  const narrowing = [
    ...(number('rollout.topP') < 1 ? ['rollout.topP'] : []),
    ...(number('rollout.topK') > 0 ? ['rollout.topK'] : []),
  ];
  const mode = text('loss.importance.mode');
  if (narrowing.length === 0 || mode === undefined || mode === 'none') return;
  if (text('endpoint.kind') === 'vllm' && text('endpoint.logprobs') !== 'processed') {
    for (const path of narrowing)
      rule(
        true,
        path,
        `must be ${path.endsWith('P') ? 1 : 0} with loss.importance.mode ${mode} while endpoint.logprobs is raw: the ratio would not see what is cut off; allowed with endpoint.logprobs processed and loss.importance.level token, or loss.importance.mode none`,
      );
    return;
  }
  rule(
    text('loss.importance.level') === 'sequence',
    'loss.importance.level',
    `must be token with ${narrowing.join(' and ')}, or loss.importance.mode none: a sample's ratio is the product of what was kept at each of its tokens, next to 0 for a long one`,
  );
}

/** The value at a dotted path of nested objects; undefined where there is none. */
export function valueAt(value: unknown, path: string): unknown {
  let at = value;
  for (const key of path.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}
