/**
 * A model of a few lines with the engine's interface, for tests of the server. Its next-token distribution
 * is a function of every cached number of the row, so a column that is missing, stale, moved or of another
 * row changes what is sampled; `referenceLogprobs` computes the same from the token ids alone.
 *
 * Some tokens inject faults: see FAULT.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../src/base/errors.ts';
import type { DecodeSession } from '../../src/engine/decode-session.ts';
import type { Adapter, LoraSpec, TensorMap } from '../../src/engine/types.ts';
import type { EngineModel } from '../../src/serve/engine-module.ts';

export const VOCABULARY = 392;
export const EOS = 1;
const SHAPE = { layers: 2, kvHeads: 2, headDim: 4 };
const PLANES = 2 * SHAPE.layers;
const COLUMN = SHAPE.kvHeads * SHAPE.headDim;

/** Token ids that, as the first of a prompt, break what computes with them. */
export const FAULT = { prefillThrows: 90, stepThrows: 91, dies: 92, nan: 93, slow: 94 } as const;

/** One number of a token's column: plane (keys of the layers, then values), head and dimension. */
function cell(token: number, position: number, plane: number, i: number, bias: number): number {
  return Math.fround(Math.sin(token * 1.7 + position * 0.31 + plane * 2.3 + i * 0.77 + bias));
}

/** The distribution after a context whose cells, position by position, sum up to `sum`. */
function distribution(sum: number, temperature: number): Float32Array {
  const logits = new Float64Array(VOCABULARY);
  // 2 sin((v + 1) x) by sin((v + 1) x) = 2 cos x sin(v x) − sin((v − 1) x).
  const x = sum + 0.37;
  const twice = 2 * Math.cos(x);
  for (let v = 0, before = 0, now = Math.sin(x); v < VOCABULARY; v++) {
    logits[v] = 2 * now;
    [before, now] = [now, twice * now - before];
  }
  const total = logits.reduce((t, logit) => t + Math.exp(logit / temperature), 0);
  return Float32Array.from(logits, (logit) => logit / temperature - Math.log(total));
}

/** log_softmax(logits / T) after `ids` under an adapter whose numbers sum to `bias`. */
export function referenceLogprobs(ids: readonly number[], bias: number, temperature: number): Float32Array {
  let sum = 0;
  ids.forEach((token, position) => {
    for (let p = 0; p < PLANES; p++)
      for (let i = 0; i < COLUMN; i++) sum += cell(token, position, p, i, bias);
  });
  return distribution(sum, temperature);
}

function biasOf(params: TensorMap | null): number {
  let bias = 0;
  for (const { data } of params?.values() ?? []) for (const value of data) bias += value;
  return bias;
}

/** Calls of the session so far, as [rows, capacity]; prefills have capacity 0. */
export type CallLog = [number, number][];

export function fakeSession(log: CallLog = []): DecodeSession {
  return {
    ...SHAPE,
    vocabSize: VOCABULARY,
    async prefill(prompts, params, temperature) {
      log.push([prompts.length, 0]);
      if (prompts.some(([first]) => first === FAULT.prefillThrows)) throw new Error('injected prefill fault');
      if (prompts.some(([first]) => first === FAULT.dies)) process.exit(7);
      if (prompts.some(([first]) => first === FAULT.slow)) {
        // Long enough to be interrupted; says when it begins and when it ends.
        writeFileSync(`${process.env.LEXPO_SLOW_MARK}-begun`, '');
        await sleep(300);
        writeFileSync(`${process.env.LEXPO_SLOW_MARK}-done`, '');
      }
      const bias = biasOf(params);
      const length = Math.ceil(Math.max(...prompts.map((prompt) => prompt.length)) / 64) * 64;
      const logprobs = new Float32Array(prompts.length * VOCABULARY);
      // Padding holds numbers that would show.
      const planes = Array.from({ length: PLANES }, () =>
        new Float32Array(prompts.length * COLUMN * length).fill(1e3),
      );
      prompts.forEach((prompt, n) => {
        for (let p = 0; p < PLANES; p++) {
          prompt.forEach((token, position) => {
            for (let h = 0; h < SHAPE.kvHeads; h++) {
              for (let d = 0; d < SHAPE.headDim; d++) {
                const at = ((n * SHAPE.kvHeads + h) * length + position) * SHAPE.headDim + d;
                planes[p]![at] = cell(token, position, p, h * SHAPE.headDim + d, bias);
              }
            }
          });
        }
        const row = referenceLogprobs([...prompt], bias, temperature[n]!);
        logprobs.set(prompt[0] === FAULT.nan ? row.fill(Number.NaN) : row, n * VOCABULARY);
      });
      return { logprobs, keys: planes.slice(0, SHAPE.layers), values: planes.slice(SHAPE.layers), length };
    },
    async step({ tokens, positions, capacity, keys, values, temperature }, params) {
      const rows = tokens.length;
      log.push([rows, capacity]);
      const bias = biasOf(params);
      const planes = [...keys, ...values];
      const size = rows * COLUMN * capacity;
      if (capacity % 64 !== 0 || planes.some((plane) => plane.length !== size)) throw new Error('bad cache');
      const fault = cell(FAULT.stepThrows, 0, 0, 0, bias);
      const logprobs = new Float32Array(rows * VOCABULARY);
      const columns = Array.from({ length: PLANES }, () => new Float32Array(rows * COLUMN));
      for (let r = 0; r < rows; r++) {
        if (positions[r]! >= capacity) throw new Error('no room for the new column');
        const at = (h: number, position: number, d: number) =>
          ((r * SHAPE.kvHeads + h) * capacity + position) * SHAPE.headDim + d;
        if (planes[0]![at(0, 0, 0)] === fault) throw new Error('injected step fault');
        let sum = 0;
        for (let position = 0; position <= positions[r]!; position++) {
          for (let p = 0; p < PLANES; p++) {
            for (let i = 0; i < COLUMN; i++) {
              const [h, d] = [Math.floor(i / SHAPE.headDim), i % SHAPE.headDim];
              const isNew = position === positions[r];
              const value = isNew ? cell(tokens[r]!, position, p, i, bias) : planes[p]![at(h, position, d)]!;
              if (isNew) columns[p]![r * COLUMN + i] = value;
              sum += value;
            }
          }
        }
        logprobs.set(distribution(sum, temperature[r]!), r * VOCABULARY);
      }
      return { logprobs, newKeys: columns.slice(0, SHAPE.layers), newValues: columns.slice(SHAPE.layers) };
    },
    async release() {},
  };
}

/** An adapter folder of the fake model: the bias is its one number. */
export function writeFakeAdapter(folder: string, bias: number, r = 4): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ r, bias }));
  return folder;
}

/** A model folder that the server can read: shape, end token, tokenizer; no weights. */
export function writeFakeModel(folder: string, tokenizerFolder: string): string {
  mkdirSync(folder, { recursive: true });
  const config = {
    architectures: ['Qwen3ForCausalLM'],
    vocab_size: VOCABULARY,
    hidden_size: 16,
    num_hidden_layers: SHAPE.layers,
    num_attention_heads: SHAPE.kvHeads,
    num_key_value_heads: SHAPE.kvHeads,
    head_dim: SHAPE.headDim,
    intermediate_size: 16,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    max_position_embeddings: 4096,
    hidden_act: 'silu',
    tie_word_embeddings: true,
    eos_token_id: EOS,
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja']) {
    writeFileSync(join(folder, name), readFileSync(join(tokenizerFolder, name)));
  }
  return folder;
}

function readFakeAdapter(folder: string): Adapter {
  if (!existsSync(join(folder, 'adapter_config.json'))) throw new UserError('missing', folder);
  const { r, bias } = JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8'));
  if (typeof bias !== 'number') throw new UserError('modules_to_save is not supported', folder);
  const spec: LoraSpec = { r, alpha: 8, rslora: false, targets: ['q_proj'] };
  return { spec, tensors: new Map([['bias', { shape: [1], data: Float32Array.of(bias) }]]) };
}

export async function openModel(): Promise<EngineModel> {
  return { session: async () => fakeSession(), readAdapter: readFakeAdapter };
}
