/** Contract: completions with token ids and log-probabilities. */
import {
  type Check,
  completionBody,
  demand,
  demandError,
  gapText,
  largestGap,
  logprobsOf,
  SAME,
  type Session,
  score,
  show,
} from './contract.ts';

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The greedy continuation, `count` tokens long. */
async function greedy(session: Session, count: number, more: object = {}): Promise<number[]> {
  const { choices } = await session.complete({
    temperature: 0,
    max_tokens: count,
    ignore_eos: true,
    ...more,
  });
  return choices[0]!.token_ids;
}

export const completionChecks: Check[] = [
  {
    name: 'ids in, ids out: the prompt comes back, usage counts both, the model is named',
    async run(session) {
      const { model, choices, usage } = await session.complete();
      const choice = choices[0]!;
      demand(model === session.baseModel, `answered by ${model}`);
      demand(choices.length === 1 && choice.index === 0, `${choices.length} choices`);
      demand(
        same(choice.prompt_token_ids, session.promptIds),
        `prompt_token_ids ${show(choice.prompt_token_ids)}`,
      );
      demand(usage.prompt_tokens === session.promptIds.length, `prompt_tokens ${usage.prompt_tokens}`);
      demand(
        usage.completion_tokens === choice.token_ids.length,
        `completion_tokens ${usage.completion_tokens}`,
      );
      demand(usage.total_tokens === usage.prompt_tokens + usage.completion_tokens, show(usage));
      return `${usage.prompt_tokens} + ${usage.completion_tokens} tokens`;
    },
  },
  {
    name: 'logprobs 0 gives one finite log-probability a token, and its text',
    async run(session) {
      const choice = (await session.complete()).choices[0]!;
      const values = logprobsOf(choice);
      demand(choice.logprobs!.tokens.length === values.length, show(choice.logprobs));
      return `${values.length} values`;
    },
  },
  {
    name: 'max_tokens cuts, with finish_reason length',
    async run(session) {
      const choice = (await session.complete({ max_tokens: 5, ignore_eos: true })).choices[0]!;
      demand(choice.token_ids.length === 5 && choice.finish_reason === 'length', show(choice));
      return '5 tokens, length';
    },
  },
  {
    name: 'temperature 0 takes the likeliest token each time',
    async run(session) {
      const output = await greedy(session, 6);
      const { ranks } = await score(session, session.baseModel, [...session.promptIds, ...output]);
      const own = ranks.slice(session.promptIds.length - 1);
      demand(
        own.every((rank) => rank === 1),
        `ranks ${own.join(' ')}`,
      );
      return `${output.length} tokens of rank 1`;
    },
  },
  {
    name: 'a sampled stop token ends the output and stays in ids and log-probabilities, not in the text',
    async run(session) {
      const output = await greedy(session, 8);
      const stop = output.find((id, i) => i > 0 && output.indexOf(id) === i)!;
      const upTo = output.slice(0, output.indexOf(stop) + 1);
      const ask = { temperature: 0, max_tokens: 8, ignore_eos: true };
      const choice = (await session.complete({ ...ask, stop_token_ids: [stop] })).choices[0]!;
      demand(same(choice.token_ids, upTo), `${show(choice.token_ids)}, not ${show(upTo)}`);
      demand(choice.finish_reason === 'stop' && choice.stop_reason === stop, show(choice));
      logprobsOf(choice);
      const shorter = (await session.complete({ ...ask, max_tokens: upTo.length - 1 })).choices[0]!;
      demand(choice.text === shorter.text, `text ${show(choice.text)}, not ${show(shorter.text)}`);
      return `stopped after ${upTo.length} tokens`;
    },
  },
  {
    name: 'the end token ends an output with stop and stop_reason null; ignore_eos goes on',
    async run(session) {
      const ask = { temperature: 2, max_tokens: 64, n: 64 };
      const { choices } = await session.complete(ask);
      const ended = choices.filter(({ finish_reason }) => finish_reason === 'stop');
      demand(ended.length > 0, 'no sample of 64 met the end token');
      for (const { token_ids: ids, stop_reason } of ended)
        demand(
          ids.at(-1) === session.endId &&
            ids.indexOf(session.endId) === ids.length - 1 &&
            stop_reason === null,
          `${show(ids)}, stop_reason ${show(stop_reason)}`,
        );
      const on = (await session.complete({ ...ask, ignore_eos: true })).choices;
      demand(
        on.every(({ token_ids: ids, finish_reason: why }) => ids.length === 64 && why === 'length'),
        show(on[0]),
      );
      return `${ended.length} of 64 samples ended`;
    },
  },
  {
    name: 'prompt_logprobs of prompt + output are the output’s log-probabilities at temperature 1',
    async run(session) {
      const choice = (await session.complete()).choices[0]!;
      const whole = [...session.promptIds, ...choice.token_ids];
      const { logprobs } = await score(session, session.baseModel, whole);
      const found = largestGap(logprobsOf(choice), logprobs.slice(session.promptIds.length - 1));
      demand(found <= SAME, gapText(found));
      return gapText(found);
    },
  },
  {
    name: 'a seed repeats its sample, another gives another',
    async run(session) {
      const draw = async (seed: number) =>
        (await session.complete({ seed, temperature: 1.5 })).choices[0]!.token_ids;
      const first = await draw(5);
      demand(same(first, await draw(5)), 'the same seed gave two samples');
      const others = await Promise.all([6, 7, 8, 9].map(draw));
      demand(
        others.some((ids) => !same(ids, first)),
        'five seeds gave one sample',
      );
      return 'repeats';
    },
  },
  {
    name: 'n samples come in order; sample i is that of seed + i',
    async run(session) {
      const { choices, usage } = await session.complete({ n: 4, seed: 20, temperature: 1.5 });
      demand(
        same(
          choices.map(({ index }) => index),
          [0, 1, 2, 3],
        ),
        show(choices.map(({ index }) => index)),
      );
      demand(usage.prompt_tokens === session.promptIds.length, `prompt_tokens ${usage.prompt_tokens}`);
      demand(
        usage.completion_tokens === choices.reduce((n, { token_ids: t }) => n + t.length, 0),
        show(usage),
      );
      for (const [i, { token_ids }] of choices.entries()) {
        const alone = (await session.complete({ seed: 20 + i, temperature: 1.5 })).choices[0]!;
        demand(
          same(alone.token_ids, token_ids),
          `sample ${i}: ${show(token_ids)}, alone ${show(alone.token_ids)}`,
        );
      }
      return '4 samples';
    },
  },
  {
    name: 'several prompts: choice prompt × n + i, each with its own prompt ids',
    async run(session) {
      const prompts = [session.promptIds, session.promptIds.slice(0, -1)];
      const { choices } = await session.complete({ prompt: prompts, n: 2 });
      demand(choices.length === 4, `${choices.length} choices`);
      for (const [i, choice] of choices.entries())
        demand(
          choice.index === i && same(choice.prompt_token_ids, prompts[i >> 1]),
          `choice ${i}: index ${choice.index}, prompt ${show(choice.prompt_token_ids)}`,
        );
      return '2 prompts × 2';
    },
  },
  {
    name: 'log-probabilities at a temperature are raw or processed, as the server was started',
    async run(session) {
      const temperature = 0.5;
      const { choices } = await session.complete({ n: 16, temperature, max_tokens: 1, ignore_eos: true });
      const seen = new Map(choices.map((choice) => [choice.token_ids[0]!, logprobsOf(choice)[0]!]));
      demand(seen.size > 1, 'all samples are the same token: choose a prompt of more entropy');
      let largest = 0;
      const [first, ...others] = await Promise.all(
        [...seen].map(async ([id, given]) => {
          const { logprobs } = await score(session, session.baseModel, [...session.promptIds, id]);
          return { given, raw: logprobs.at(-1)! };
        }),
      );
      // log p_T(a) − log p_T(b) = (log p(a) − log p(b)) / T: the unknown normaliser drops out.
      const by = session.logprobs === 'raw' ? 1 : temperature;
      for (const one of others)
        largest = Math.max(largest, Math.abs(one.given - first!.given - (one.raw - first!.raw) / by));
      demand(largest <= SAME / temperature, `not ${session.logprobs}: ${gapText(largest)}`);
      return `${session.logprobs}, ${gapText(largest)} over ${seen.size} tokens`;
    },
  },
  {
    name: 'many at once answer what each answers alone',
    async run(session) {
      const prompts = Array.from({ length: 16 }, (_, i) => [
        ...session.promptIds.slice(0, 1 + (i % session.promptIds.length)),
        session.promptIds[i % session.promptIds.length]!,
      ]);
      const ask = (prompt: number[]) => session.complete({ prompt, temperature: 0, ignore_eos: true });
      const together = await Promise.all(prompts.map(ask));
      let largest = 0;
      for (const [i, prompt] of prompts.entries()) {
        const [one, alone] = [together[i]!.choices[0]!, (await ask(prompt)).choices[0]!];
        demand(same(one.prompt_token_ids, prompt), `request ${i} got the answer of another`);
        demand(
          same(one.token_ids, alone.token_ids),
          `${show(one.token_ids)} together, ${show(alone.token_ids)} alone`,
        );
        largest = Math.max(largest, largestGap(logprobsOf(one), logprobsOf(alone)));
      }
      demand(largest <= SAME, gapText(largest));
      return `16 requests, ${gapText(largest)}`;
    },
  },
  {
    name: 'cache_salt changes no number; an empty one is a 400',
    async run(session) {
      const ask = { temperature: 0, ignore_eos: true };
      const [plain, salted] = [
        await session.complete(ask),
        await session.complete({ ...ask, cache_salt: 'v7' }),
      ];
      const found = largestGap(logprobsOf(plain.choices[0]!), logprobsOf(salted.choices[0]!));
      demand(
        same(plain.choices[0]!.token_ids, salted.choices[0]!.token_ids) && found <= SAME,
        gapText(found),
      );
      const empty = await session.post('/v1/completions', completionBody(session, { cache_salt: '' }));
      return `${gapText(found)}; ${demandError(empty, [400], /cache_salt/)}`;
    },
  },
];
