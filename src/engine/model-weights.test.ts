/** A model folder's files as they are met: shards, links into a store, and weights that do not belong. */
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { familyPath, loadFamily } from '../../test/vectors/families.ts';
import { UserError } from '../base/errors.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { createDecodeSession } from './decode-session.ts';
import { readSafetensorsIndex, readTensor, writeSafetensors } from './safetensors.ts';
import { chainBatch } from './test-support.ts';
import { createTrainingSession } from './training-session.ts';
import type { TensorMap } from './types.ts';
import { weightsMark } from './weights-mark.ts';

const scratch = temporaryFolder();
let count = 0;

/** A copy of a family's model without what belongs to the vectors. */
function copyOf(name: string): string {
  const folder = join(scratch, `${name}-${count++}`);
  cpSync(familyPath(name), folder, { recursive: true });
  for (const extra of ['adapter', 'expected.safetensors', 'vectors.json'])
    rmSync(join(folder, extra), { recursive: true });
  return folder;
}

const tensorsOf = (folder: string): TensorMap =>
  new Map([...readSafetensorsIndex(folder)].map(([name, entry]) => [name, readTensor(entry)]));

/** Log-probabilities of the base model. */
async function logprobsOf(folder: string): Promise<Float32Array> {
  const session = await createTrainingSession({
    folder,
    lora: null,
    mode: 'lora',
    gradients: false,
    threads: 1,
  });
  const { samples } = loadFamily('qwen2.5').vectors;
  const { rows } = await session.run(chainBatch(samples.map(({ ids }) => ({ ids }))), new Map(), 0);
  await session.release();
  return rows.logprobs;
}

/** What both graphs say of a folder; they must say the same. */
async function refusal(folder: string): Promise<string> {
  const decoding = createDecodeSession({ folder, lora: null, threads: 1 });
  const errors = await Promise.all(
    [logprobsOf(folder), decoding].map((p) =>
      p.then(
        () => null,
        (e) => e,
      ),
    ),
  );
  for (const error of errors) expect(error).toBeInstanceOf(UserError);
  expect(errors[0].message).toBe(errors[1].message);
  return errors[0].message;
}

/** The layout of the Hugging Face cache: every file a link from a snapshot into the store of blobs. */
function intoCache(folder: string): string {
  const cache = join(scratch, `models--x--${basename(folder)}`);
  const snapshot = join(cache, 'snapshots', '0123456789abcdef');
  mkdirSync(snapshot, { recursive: true });
  mkdirSync(join(cache, 'blobs'));
  readdirSync(folder).forEach((file, i) => {
    const blob = `${i}`.padStart(40, 'f');
    copyFileSync(join(folder, file), join(cache, 'blobs', blob));
    symlinkSync(`../../blobs/${blob}`, join(snapshot, file));
  });
  return snapshot;
}

describe('where the files lie', () => {
  test.each(['qwen2.5', 'mistral', 'smollm'])(
    '%s: links of a Hugging Face cache are followed',
    async (name) => {
      const folder = copyOf(name);
      const snapshot = intoCache(folder);
      expect(await logprobsOf(snapshot)).toEqual(await logprobsOf(folder));
      expect(weightsMark(snapshot)).toBe(weightsMark(folder));
      const decode = await createDecodeSession({ folder: snapshot, lora: null, threads: 1 });
      await decode.release();
    },
  );

  test('a snapshot that was linked to, and shards in several folders', async () => {
    const folder = copyOf('qwen2.5');
    const linked = join(scratch, 'linked');
    symlinkSync(intoCache(folder), linked);
    expect(await logprobsOf(linked)).toEqual(await logprobsOf(folder));
    const apart = copyOf('qwen2.5');
    const shard = 'model-00002-of-00003.safetensors';
    const elsewhere = mkdtempSync(join(scratch, 'elsewhere-'));
    renameSync(join(apart, shard), join(elsewhere, 'x.bin'));
    symlinkSync(join(elsewhere, 'x.bin'), join(apart, shard));
    expect(await logprobsOf(apart)).toEqual(await logprobsOf(folder));
  });

  test('a link to nothing, a missing shard, a shard that belongs elsewhere', async () => {
    const folder = copyOf('qwen2.5');
    const shard = join(folder, 'model-00002-of-00003.safetensors');
    const whole = readFileSync(shard);
    rmSync(shard);
    expect(await refusal(folder)).toMatch(
      /index.json: the shard model-00002-of-00003.safetensors is missing/,
    );
    symlinkSync(join(folder, 'nowhere'), shard);
    expect(await refusal(folder)).toMatch(/the shard model-00002-of-00003.safetensors is missing/);
    rmSync(shard);
    copyFileSync(join(folder, 'model-00001-of-00003.safetensors'), shard);
    expect(await refusal(folder)).toMatch(/is in model-00002-of-00003.safetensors, but it is not/);
    writeFileSync(shard, whole.subarray(0, whole.length - 1));
    expect(await refusal(folder)).toMatch(/truncated/);
    writeFileSync(shard, 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n');
    expect(await refusal(folder)).toMatch(/Git LFS pointer/);
  });

  test('an index that leaves a tensor out, and a second set of weights', async () => {
    const folder = copyOf('qwen2.5');
    const file = join(folder, 'model.safetensors.index.json');
    const index = JSON.parse(readFileSync(file, 'utf8'));
    const { 'model.norm.weight': _, ...rest } = index.weight_map;
    writeFileSync(file, JSON.stringify({ ...index, weight_map: rest }));
    expect(await refusal(folder)).toMatch(/no tensor 'model.norm.weight'/);
    writeFileSync(file, JSON.stringify(index));
    writeSafetensors(join(folder, 'model.safetensors'), tensorsOf(folder), { dtype: 'F32' });
    expect(await refusal(folder)).toMatch(/both model.safetensors and model.safetensors.index.json/);
    rmSync(file);
    for (const shard of readdirSync(folder).filter((name) => name.startsWith('model-')))
      rmSync(join(folder, shard));
    // bf16 and f32 widened: the same numbers
    expect(await logprobsOf(folder)).toEqual(await logprobsOf(familyPath('qwen2.5')));
    rmSync(join(folder, 'model.safetensors'));
    writeFileSync(join(folder, 'pytorch_model.bin'), '');
    expect(await refusal(folder)).toMatch(/pickled \(pytorch_model.bin\)/);
  });

  test('mixed dtypes are read as they are', () => {
    const dtypes = new Set([...readSafetensorsIndex(familyPath('qwen2.5')).values()].map((e) => e.dtype));
    expect(dtypes).toEqual(new Set(['F32', 'BF16']));
    expect(statSync(join(familyPath('mistral'), 'model.safetensors')).size).toBeLessThan(20_000);
  });
});

describe('weights that the graph does not use', () => {
  const vector = (n: number) => ({ shape: [n], data: new Float32Array(n) });
  const withExtra = (family: string, name: string, shape: number): string => {
    const folder = copyOf(family);
    const tensors = tensorsOf(folder).set(name, vector(shape));
    for (const file of readdirSync(folder)) if (file.startsWith('model')) rmSync(join(folder, file));
    writeSafetensors(join(folder, 'model.safetensors'), tensors, { dtype: 'F32' });
    return folder;
  };

  test.each([
    ['smollm', 'model.layers.0.self_attn.q_proj.bias', 18],
    ['smollm', 'model.layers.1.mlp.down_proj.bias', 18],
    ['qwen2.5', 'model.layers.0.self_attn.o_proj.bias', 16],
    ['qwen2.5', 'model.layers.0.self_attn.q_norm.weight', 4],
    ['mistral', 'model.layers.0.block_sparse_moe.gate.weight', 16],
    ['mistral', 'lm_head.bias', 48],
    ['llama3', 'model.layers.0.self_attn.sinks', 4],
  ])('%s with %s is another model', async (family, name, size) => {
    expect(await refusal(withExtra(family, name, size))).toContain(`'${name}', which`);
  });

  test('tables of rotary frequencies, and a tied head that equals the embedding, change nothing', async () => {
    const plain = await logprobsOf(familyPath('smollm'));
    const table = withExtra('smollm', 'model.layers.0.self_attn.rotary_emb.inv_freq', 3);
    expect(await logprobsOf(table)).toEqual(plain);
    const folder = copyOf('smollm');
    const tensors = tensorsOf(folder);
    const { shape, data } = tensors.get('model.embed_tokens.weight')!;
    const head = { shape, data: data.slice() };
    const write = () =>
      writeSafetensors(join(folder, 'model.safetensors'), new Map([...tensors, ['lm_head.weight', head]]), {
        dtype: 'F32',
      });
    write();
    expect(await logprobsOf(folder)).toEqual(plain);
    head.data[head.data.length - 1]! += 1e-3;
    write();
    expect(await refusal(folder)).toMatch(/lm_head.weight' that is not the embedding/);
  });

  test('biases that config.json promises and the file lacks', async () => {
    const folder = copyOf('llama-biases');
    const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, mlp_bias: false }));
    expect(await refusal(folder)).toMatch(/holds 'model.layers.0.mlp.*bias', which llama/);
    const without = copyOf('smollm');
    const other = JSON.parse(readFileSync(join(without, 'config.json'), 'utf8'));
    writeFileSync(join(without, 'config.json'), JSON.stringify({ ...other, attention_bias: true }));
    expect(await refusal(without)).toMatch(/no tensor 'model.layers.0.self_attn.q_proj.bias'/);
  });
});
