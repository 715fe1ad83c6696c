/**
 * A server that takes adapters as vLLM does, in a process of its own, and that reads and hashes the whole file on
 * load. Its log-probabilities follow from the file's bytes, so that the proof holds only if they arrived. Tells
 * its address to the process that forked it, and ends with it.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { readSafetensors } from '../../src/engine/safetensors.ts';
import { logprobsOf } from './fingerprint.ts';

interface Card {
  id: string;
  root: string;
  parent: string | null;
  logprobs: number[];
  sha256: string;
}
const cards: Card[] = [{ id: 'base', root: '/base', parent: null, logprobs: logprobsOf(null), sha256: '' }];

function load(id: string, root: string): Card {
  const file = join(root, 'adapter_model.safetensors');
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  const { tensors } = readSafetensors(file);
  return { id, root, parent: 'base', logprobs: logprobsOf(tensors), sha256 };
}

function answer(path: string, body: Record<string, unknown>): unknown {
  const found = cards.findIndex(({ id }) => id === (body.lora_name ?? body.model));
  switch (path) {
    case '/v1/load_lora_adapter':
      cards.push(load(String(body.lora_name), String(body.lora_path)));
      return 'Success';
    case '/v1/unload_lora_adapter':
      cards.splice(found, 1);
      return 'Success';
    case '/v1/completions': {
      const prompt = body.prompt as number[];
      const scored = prompt.map((id, i) =>
        i === 0 ? null : { [id]: { logprob: cards[found]!.logprobs[i - 1] } },
      );
      const logprobs = { token_logprobs: [-1] };
      const choice = { index: 0, text: '', finish_reason: 'length', logprobs, prompt_logprobs: scored };
      const ids = { token_ids: [0], prompt_token_ids: prompt };
      const usage = { prompt_tokens: prompt.length, completion_tokens: 1 };
      return { model: body.model, choices: [{ ...choice, ...ids }], usage };
    }
    case '/v1/models':
      return { data: cards };
    default:
      return '';
  }
}

const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const told = answer(request.url!, text === '' ? {} : JSON.parse(text));
  const isText = typeof told === 'string';
  response.setHeader('content-type', isText ? 'text/plain' : 'application/json');
  response.end(isText ? told : JSON.stringify(told));
});
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
process.once('disconnect', () => process.exit());
