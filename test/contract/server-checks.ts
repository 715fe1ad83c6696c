/** Contract: health, version, the list of models, tokens of a text, and what is no request. */
import { type Check, completionBody, demand, demandError, show } from './contract.ts';

export const serverChecks: Check[] = [
  {
    name: 'GET /health answers 200',
    async run({ get }) {
      const { status } = await get('/health');
      demand(status === 200, `${status}`);
      return `${status}`;
    },
  },
  {
    name: 'GET /version tells the version',
    async run({ get }) {
      const { status, json } = await get('/version');
      demand(status === 200 && typeof json?.version === 'string', `${status} ${show(json)}`);
      return json.version;
    },
  },
  {
    name: 'GET /v1/models lists the base model, its length limit and no parent',
    async run({ get, baseModel, maxModelLen }) {
      const { status, json } = await get('/v1/models');
      demand(status === 200 && json?.object === 'list', `${status} ${show(json)}`);
      const card = json.data.find(({ id }: { id: string }) => id === baseModel);
      demand(card !== undefined, `${baseModel} is not listed: ${show(json)}`);
      demand(
        card.object === 'model' && card.parent === null && typeof card.root === 'string',
        `card ${show(card)}`,
      );
      demand(card.max_model_len === maxModelLen, `max_model_len ${card.max_model_len}, not ${maxModelLen}`);
      return `max_model_len ${card.max_model_len}`;
    },
  },
  {
    name: 'POST /tokenize gives ids and their count',
    async run({ post, baseModel, maxModelLen, vocabSize }) {
      const { status, json } = await post('/tokenize', { model: baseModel, prompt: '合同abc' });
      demand(status === 200 && Array.isArray(json?.tokens), `${status} ${show(json)}`);
      demand(
        json.count === json.tokens.length && json.count > 0,
        `count ${json.count}, ${json.tokens.length} tokens`,
      );
      demand(
        json.tokens.every((id: number) => Number.isInteger(id) && id >= 0 && id < vocabSize),
        show(json),
      );
      demand(json.max_model_len === maxModelLen, `max_model_len ${json.max_model_len}`);
      return `${json.count} ids`;
    },
  },
  {
    name: 'an unknown route is a 404',
    async run({ get }) {
      const { status } = await get('/v1/no-such-route');
      demand(status === 404, `${status}`);
      return `${status}`;
    },
  },
  {
    name: 'a body that is no JSON is a 400',
    run: async ({ post }) => demandError(await post('/v1/completions', '{"model":'), [400], /./),
  },
  {
    name: 'an unknown model is a 404 that names param model',
    async run(session) {
      const answer = await session.post('/v1/completions', completionBody(session, { model: 'no-such' }));
      const seen = demandError(answer, [404], /`no-such` does not exist/);
      demand(answer.json.error?.param === 'model', `param ${show(answer.json.error?.param)}`);
      return seen;
    },
  },
  {
    name: 'a prompt longer than the model is a 400 that names param input_tokens',
    async run(session) {
      const prompt = Array<number>(session.maxModelLen + 10).fill(session.promptIds[0]!);
      const answer = await session.post(
        '/v1/completions',
        completionBody(session, { prompt, max_tokens: 1 }),
      );
      const seen = demandError(answer, [400], /maximum context length/);
      demand(answer.json.error?.param === 'input_tokens', `param ${show(answer.json.error?.param)}`);
      return seen;
    },
  },
  {
    name: 'a prompt without room for its output is a 400, or ends with finish_reason length at the limit',
    async run(session) {
      const prompt = Array<number>(session.maxModelLen - 2).fill(session.promptIds[0]!);
      const body = completionBody(session, { prompt, max_tokens: 8, ignore_eos: true });
      const answer = await session.post('/v1/completions', body);
      if (answer.status !== 200) return demandError(answer, [400], /maximum context length/);
      const choice = answer.json.choices[0];
      demand(choice.finish_reason === 'length' && choice.token_ids.length === 2, show(choice));
      return '200, cut to the 2 tokens that fit';
    },
  },
  {
    name: 'a token id outside the vocabulary is a 400',
    run: async (session) =>
      demandError(
        await session.post('/v1/completions', completionBody(session, { prompt: [session.vocabSize + 5] })),
        [400],
        /vocabulary/,
      ),
  },
  {
    name: 'an empty prompt and a negative temperature are 400s',
    async run(session) {
      for (const more of [{ prompt: [] }, { temperature: -1 }])
        demandError(await session.post('/v1/completions', completionBody(session, more)), [400], /./);
      return '400';
    },
  },
];
