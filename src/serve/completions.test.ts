/** Completions over real HTTP and a real worker thread, with the fake model of test/serve. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EOS, referenceLogprobs } from '../../test/serve/fake-engine.ts';
import { type Bench, complete, createBench, type Json } from '../../test/serve/harness.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import type { PolicyServer } from './server.ts';

let bench: Bench;
let server: PolicyServer;
beforeAll(async () => {
  bench = createBench();
  server = await bench.start();
});
afterAll(() => bench.close());

describe('completions', () => {
  it('answer ids, log-probabilities of the sampled tokens, and counts', async () => {
    const { status, json } = await complete(server);
    expect(status).toBe(200);
    const [choice] = json.choices;
    const { token_ids: ids } = choice;
    expect(json).toMatchObject({ object: 'text_completion', model: 'base' });
    expect(choice).toMatchObject({ index: 0, prompt_token_ids: [5, 6, 7], prompt_logprobs: null });
    expect(choice.logprobs.token_logprobs).toEqual(
      ids.map((id: number, i: number) => referenceLogprobs([5, 6, 7, ...ids.slice(0, i)], 0, 1)[id]),
    );
    expect(json.usage).toEqual({
      prompt_tokens: 3,
      completion_tokens: ids.length,
      total_tokens: 3 + ids.length,
    });
    const tokenizer = loadTokenizer(bench.modelFolder);
    const spoken = choice.finish_reason === 'stop' ? ids.slice(0, -1) : ids;
    expect(choice.text).toBe(tokenizer.decode(spoken, { skipSpecial: true }));
    expect(choice.logprobs.tokens.length).toBe(ids.length);
    expect(choice.logprobs.text_offset[0]).toBe(0);
  });

  it('end on stop_token_ids with the token as reason, and on the end token with none', async () => {
    const greedy = (await complete(server, { temperature: 0, ignore_eos: true })).json.choices[0].token_ids;
    const stop = greedy[2];
    const stopped = (await complete(server, { temperature: 0, stop_token_ids: [stop] })).json.choices[0];
    expect(stopped).toMatchObject({ finish_reason: 'stop', stop_reason: stop });
    expect(stopped.token_ids).toEqual(greedy.slice(0, greedy.indexOf(stop) + 1));
    // Sampled long enough, one of 16 comes upon the end token.
    const { json } = await complete(server, { n: 16, max_tokens: 200 });
    const ended = json.choices.filter((choice: Json) => choice.token_ids.at(-1) === EOS);
    expect(ended.length).toBeGreaterThan(0);
    for (const choice of ended) expect(choice).toMatchObject({ finish_reason: 'stop', stop_reason: null });
  });

  it('under top_p and top_k are drawn from what is kept, and answer log-probabilities renormalised over it', async () => {
    const [topP, topK] = [0.6, 5];
    const { json } = await complete(server, { n: 8, top_p: topP, top_k: topK, max_tokens: 20 });
    let cut = 0;
    for (const { token_ids: ids, logprobs } of json.choices)
      ids.forEach((id: number, i: number) => {
        const p = Array.from(referenceLogprobs([5, 6, 7, ...ids.slice(0, i)], 0, 1), Math.exp);
        const best = p.slice().sort((a, b) => b - a);
        const among = best.slice(0, topK);
        const wanted = topP * among.reduce((a, b) => a + b);
        let mass = 0;
        const kept = among.filter((q) => {
          const keep = mass < wanted;
          mass += keep ? q : 0;
          return keep;
        });
        expect(p[id]).toBeGreaterThanOrEqual(kept.at(-1)!);
        expect(logprobs.token_logprobs[i]).toBeCloseTo(Math.log(p[id]! / mass), 4);
        if (kept.length < topK) cut++;
      });
    expect(cut).toBeGreaterThan(0);
    const greedy = { temperature: 0, max_tokens: 5 };
    const one = (await complete(server, { ...greedy, top_p: 0.1 })).json.choices[0];
    expect(one).toEqual((await complete(server, greedy)).json.choices[0]);
  });

  it('of several prompts come in the order prompt × n + i', async () => {
    const prompts = [[5, 6, 7], [8], [9, 10]];
    const { json } = await complete(server, { prompt: prompts, n: 2 });
    expect(json.choices.map((choice: Json) => choice.index)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(json.choices.map((choice: Json) => choice.prompt_token_ids)).toEqual(
      [0, 0, 1, 1, 2, 2].map((p) => prompts[p]),
    );
    expect(json.usage.prompt_tokens).toBe(6);
    const alone = (await complete(server, { prompt: [8], seed: 4 })).json.choices[0];
    expect(json.choices[3].token_ids).toEqual(alone.token_ids);
  });

  it('score the prompt as vLLM shapes it: null first, then the own token with its rank', async () => {
    const prompt = [9, 4, 33, 70];
    for (const maxTokens of [0, 1]) {
      const { json } = await complete(server, { prompt, max_tokens: maxTokens, prompt_logprobs: 0 });
      const [first, ...rest] = json.choices[0].prompt_logprobs;
      expect(first).toBeNull();
      rest.forEach((entry: Json, i: number) => {
        const id = prompt[i + 1]!;
        const row = referenceLogprobs(prompt.slice(0, i + 1), 0, 1);
        expect(Object.keys(entry)).toEqual([String(id)]);
        expect(entry[id]).toMatchObject({
          logprob: row[id],
          rank: row.filter((lp) => lp >= row[id]!).length,
        });
        expect(typeof entry[id].decoded_token).toBe('string');
      });
      expect(json.usage.completion_tokens).toBe(maxTokens);
    }
  });

  it('echo the prompt, with its log-probabilities when they are asked for', async () => {
    const { json } = await complete(server, { prompt: [40, 41], max_tokens: 0, echo: true });
    const [choice] = json.choices;
    expect(choice.text).toBe(loadTokenizer(bench.modelFolder).decode([40, 41], { skipSpecial: true }));
    expect(choice.logprobs.token_logprobs).toEqual([null, referenceLogprobs([40], 0, 1)[41]]);
    expect(choice.token_ids).toEqual([]);
  });

  it('of text prompts are those of their ids', async () => {
    const ids = loadTokenizer(bench.modelFolder).encodeMarkup('ab');
    const { json } = await complete(server, { prompt: 'ab' });
    expect(json.choices[0].prompt_token_ids).toEqual(ids);
    expect(json.choices[0].token_ids).toEqual(
      (await complete(server, { prompt: ids })).json.choices[0].token_ids,
    );
  });

  it('reproduce from their seed, alone and among 64 others at once', async () => {
    const bodies = Array.from({ length: 64 }, (_, i) => ({
      seed: i,
      prompt: [2 + (i % 8), 50, 51],
      max_tokens: 4 + (i % 40),
    }));
    const alone = [];
    for (const body of bodies.slice(0, 12)) alone.push((await complete(server, body)).json.choices[0]);
    const crowd = await Promise.all(bodies.map((body) => complete(server, body)));
    expect(crowd.every(({ status }) => status === 200)).toBe(true);
    alone.forEach((choice, i) => {
      expect(crowd[i]!.json.choices[0]).toEqual(choice);
    });
    expect(new Set(crowd.map(({ json }) => json.choices[0].token_ids.join())).size).toBeGreaterThan(50);
  });

  it('without a seed differ from each other', async () => {
    const [a, b] = [await complete(server, { seed: null }), await complete(server, { seed: null })];
    expect(a.json.choices[0].token_ids).not.toEqual(b.json.choices[0].token_ids);
  });
});
