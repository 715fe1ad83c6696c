/**
 * An endpoint that answers at once: a planner that rewrites and then ends, a rewriter with always the same
 * words. The argument is a model folder, for its tokenizer. `GET /spent` gives what it took itself.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadModel } from '../../src/trainer/prepare.ts';

const model = loadModel(process.argv[2]!);
const answerOf = (text: string) => ({ text, ids: [...model.tokenizer.encode(text), model.endId] });
const rewrite = answerOf('{"action":"rewrite_single"}');
const end = answerOf('{"action":"terminate"}');
const words = answerOf('劳动合同解除经济补偿');
const planner = Math.max(rewrite.ids.length, end.ids.length);
let calls = 0;
let spentMs = 0;

async function answer(asked: IncomingMessage, reply: ServerResponse): Promise<void> {
  if (asked.url === '/spent') return void reply.end(JSON.stringify({ calls, spentMs, planner }));
  let body = '';
  for await (const chunk of asked) body += chunk;
  const started = performance.now();
  const {
    model: name,
    prompt,
    max_tokens: most,
  } = JSON.parse(body) as {
    model: string;
    prompt: number[];
    max_tokens: number;
  };
  const first = model.tokenizer.decode(prompt, { skipSpecial: true }).includes('轮0');
  const { text, ids } = most !== planner ? words : first ? rewrite : end;
  const choice = {
    index: 0,
    text,
    finish_reason: 'stop',
    logprobs: { token_logprobs: ids.map(() => -0.5) },
    token_ids: ids,
    prompt_token_ids: prompt,
  };
  const usage = { prompt_tokens: prompt.length, completion_tokens: ids.length };
  reply.setHeader('content-type', 'application/json');
  reply.end(JSON.stringify({ id: 'stub', object: 'text_completion', model: name, choices: [choice], usage }));
  calls++;
  spentMs += performance.now() - started;
}

const server = createServer((asked, reply) => void answer(asked, reply));
server.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port} ${planner}`);
});
