import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { UserError } from '../../base/errors.ts';
import { readAdapter, writeAdapter } from '../../engine/peft.ts';
import { readSafetensors, writeSafetensors } from '../../engine/safetensors.ts';
import { randomAdapter, tinyModel } from '../../engine/test-support.ts';
import { type ExportOptions, exportPolicy } from './export-policy.ts';
import { evaluationOf, makeRun, SPEC, type TestRun, writeJson } from './test-support-run.ts';

let run: TestRun;
let out = '';
let notes: string[] = [];
beforeEach(async () => {
  run = await makeRun();
  out = join(run.scratch, 'out');
  notes = [];
  return () => {
    for (const folder of [run.scratch, run.base]) rmSync(folder, { recursive: true, force: true });
  };
});
const exported = (options: Partial<ExportOptions> = {}) =>
  exportPolicy({
    target: run.root,
    out,
    merged: false,
    force: false,
    signal: new AbortController().signal,
    log: (line) => void notes.push(line),
    ...options,
  });
const card = (): string => readFileSync(join(out, 'README.md'), 'utf8');
const weights = (folder: string) => readFileSync(join(folder, 'adapter_model.safetensors'));
/** Nothing half-made is left beside the run. */
const clean = (): boolean => readdirSync(run.scratch).every((name) => ['runs', 'out'].includes(name));

describe('an adapter', () => {
  test("is the run's chosen one, the same bytes, with a config of our own and a card", async () => {
    expect(await exported({ baseName: 'Qwen/Qwen3-0.6B' })).toEqual({ adapter: 'demo-v2' });
    expect(readdirSync(out).sort()).toEqual([
      'README.md',
      'adapter_config.json',
      'adapter_model.safetensors',
    ]);
    const source = join(run.root, 'adapters', 'demo-v2');
    expect(weights(out).equals(weights(source))).toBe(true);
    const json = JSON.parse(readFileSync(join(out, 'adapter_config.json'), 'utf8'));
    expect(json).toMatchObject({ r: 4, lora_alpha: 8, base_model_name_or_path: 'Qwen/Qwen3-0.6B' });
    expect(readAdapter(out)).toEqual(readAdapter(source));
    expect(notes).toEqual([]);
    expect(clean()).toBe(true);
  });

  test('no file says where on this machine anything lies', async () => {
    await exported();
    for (const name of readdirSync(out))
      for (const place of [run.scratch, run.base, '/home/me', '/elsewhere'])
        expect(readFileSync(join(out, name), 'latin1'), name).not.toContain(place);
    expect(notes).toEqual([expect.stringContaining('--base-name')]);
  });

  test('a rank above the default of vLLM comes with what to pass it', async () => {
    const folder = join(run.scratch, 'runs', 'wide');
    await writeAdapter(folder, randomAdapter(run.base, { ...SPEC, r: 24 }), { baseModel: run.base });
    await exported({ target: folder });
    expect(notes.join('\n')).toContain('--max-lora-rank 32');
    expect(card()).toContain('--max-lora-rank 32');
    expect(card()).toContain('How it was trained was not recorded');
  });

  test('half-precision weights stay what they are', async () => {
    const folder = join(run.scratch, 'runs', 'half');
    await writeAdapter(folder, randomAdapter(run.base, SPEC), { baseModel: run.base });
    const file = join(folder, 'adapter_model.safetensors');
    writeSafetensors(file, readSafetensors(file).tensors, { dtype: 'BF16' });
    await exported({ target: folder });
    expect(weights(out).equals(weights(folder))).toBe(true);
  });

  test('another one there stays, unless force replaces it whole', async () => {
    await exported();
    await expect(exported({ checkpoint: 'last' })).rejects.toThrow(/out: exists already/);
    expect(card()).toContain('# demo-v2');
    await exported({ checkpoint: 'last', force: true, merged: true });
    expect(card()).toContain('# demo-v4');
    expect(existsSync(join(out, 'adapter_config.json'))).toBe(false);
    expect(clean()).toBe(true);
  });
});

describe('a merged model', () => {
  test('has what a model folder has, and no path of this machine', async () => {
    const files = {
      'generation_config.json': '{"eos_token_id": 1}',
      'tokenizer.json': '{"t": 1}',
      'tokenizer_config.json': '{"name_or_path": "/home/me/models/x", "model_max_length": 1e30}',
      'chat_template.jinja': '{{ x }}',
      LICENSE: 'mine',
      'README.md': 'of the base',
      'optimizer.pt': 'x',
      'pytorch_model.bin': 'x',
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(join(run.base, name), text);
    await exported({ merged: true });
    expect(readdirSync(out).sort()).toEqual(
      [
        ...Object.keys(files).filter((name) => !['optimizer.pt', 'pytorch_model.bin'].includes(name)),
        'config.json',
        'model.safetensors',
      ].sort(),
    );
    for (const name of ['config.json', 'generation_config.json', 'tokenizer.json', 'LICENSE'])
      expect(readFileSync(join(out, name)).equals(readFileSync(join(run.base, name))), name).toBe(true);
    expect(JSON.parse(readFileSync(join(out, 'tokenizer_config.json'), 'utf8'))).toEqual({
      model_max_length: 1e30,
    });
    expect(card()).toMatch(/^---\nlibrary_name: transformers\n/);
    const [before, after] = [run.base, out].map((f) => readSafetensors(join(f, 'model.safetensors')).tensors);
    const changed = [...after!].filter(([name, { data }]) =>
      data.some((x, i) => x !== before!.get(name)!.data[i]),
    );
    expect(changed.map(([name]) => name)).toEqual(
      [0, 1].flatMap((layer) =>
        ['q_proj', 'v_proj'].map((module) => `model.layers.${layer}.self_attn.${module}.weight`),
      ),
    );
  });

  test('of a sharded model is sharded alike', async () => {
    const file = join(run.base, 'model.safetensors');
    const { tensors } = readSafetensors(file);
    const names = [...tensors.keys()];
    const shard = (i: number): string => `model-0000${(i % 2) + 1}-of-00002.safetensors`;
    for (const s of [0, 1])
      writeSafetensors(join(run.base, shard(s)), new Map([...tensors].filter((_, i) => i % 2 === s)), {
        dtype: 'BF16',
      });
    rmSync(file);
    writeJson(join(run.base, 'model.safetensors.index.json'), {
      weight_map: Object.fromEntries(names.map((name, i) => [name, shard(i)])),
    });
    rmSync(join(run.root, 'inputs.json'));
    await exported({ merged: true });
    const weightFiles = (folder: string) =>
      readdirSync(folder)
        .filter((name) => name.includes('safetensors'))
        .sort();
    expect(weightFiles(out)).toEqual(weightFiles(run.base));
    expect(notes).toEqual([
      expect.stringMatching(/00001.* \(1 of 2\)$/),
      expect.stringMatching(/00002.* \(2 of 2\)$/),
    ]);
  });

  test('a signal in the middle leaves nothing', async () => {
    const controller = new AbortController();
    const options = {
      merged: true,
      signal: controller.signal,
      log: () => controller.abort(new Error('stop')),
    };
    await expect(exported(options)).rejects.toThrow('stop');
    expect(existsSync(out)).toBe(false);
    expect(clean()).toBe(true);
  });
});

describe('wrong input is one clear error, and nothing is written', () => {
  const wrong = async (text: string | RegExp, options: Partial<ExportOptions> = {}) => {
    const error = await exported(options).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(UserError);
    expect((error as Error).message).toMatch(text);
    expect(existsSync(out)).toBe(false);
    expect(clean()).toBe(true);
  };

  test('an adapter of another base model, by shape and by weights', async () => {
    const other = tinyModel({ vocab: 50, hidden: 20, layers: 2, heads: 4, kvHeads: 2, headDim: 6, ffn: 24 });
    await wrong(/lora_A.weight is \[4,16\], the model needs \[4,20\][\s\S]*another base model/, {
      base: other,
    });
    rmSync(other, { recursive: true });
    const file = join(run.base, 'model.safetensors');
    const { tensors } = readSafetensors(file);
    tensors.get('model.norm.weight')!.data[0]! += 1;
    writeSafetensors(file, tensors, { dtype: 'F32' });
    await wrong(/has other weights than when the run was trained on it/);
  });

  test('a base model that is gone: an error where it is needed or was named, else a note', async () => {
    renameSync(run.base, join(run.scratch, 'out-of-the-way'));
    cpSync(join(run.scratch, 'out-of-the-way'), `${run.base}-moved`, { recursive: true });
    rmSync(join(run.scratch, 'out-of-the-way'), { recursive: true });
    await wrong(/the base model is not there[\s\S]*--base/, { merged: true });
    await wrong(/nowhere: the base model is not there/, { base: join(run.scratch, 'nowhere') });
    await exported();
    expect(notes.join('\n')).toContain('is not here: nothing checked that the adapter fits it');
    await exported({ merged: true, force: true, base: `${run.base}-moved` });
    rmSync(`${run.base}-moved`, { recursive: true });
  });

  test('truncated and damaged files', async () => {
    const adapter = join(run.root, 'adapters', 'demo-v2');
    const [file, baseFile] = [
      join(adapter, 'adapter_model.safetensors'),
      join(run.base, 'model.safetensors'),
    ];
    const [whole, baseWhole] = [readFileSync(file), readFileSync(baseFile)];
    for (const bytes of [0, 7, 100, whole.length - 1]) {
      truncateSync(file, bytes);
      await wrong(/adapter_model.safetensors/);
      writeFileSync(file, whole);
    }
    truncateSync(baseFile, baseWhole.length - 1);
    await wrong(/model.safetensors/, { merged: true });
    writeFileSync(baseFile, baseWhole);
    for (const name of ['report.json', 'inputs.json']) {
      const text = readFileSync(join(run.root, name), 'utf8');
      writeFileSync(join(run.root, name), text.slice(0, text.length / 2));
      await wrong(new RegExp(`${name}: cannot be read as JSON`));
      writeFileSync(join(run.root, name), text);
    }
    rmSync(file);
    await wrong(/adapter_model.safetensors is missing/);
  });
});

describe('the card says what the run recorded', () => {
  test('data by hash, figures with intervals, settings; no paths', async () => {
    await exported({ baseName: 'Qwen/Qwen3-0.6B' });
    const [, front, body] = card().split(/^---$/m) as [string, string, string];
    expect(parse(front)).toEqual({
      base_model: 'Qwen/Qwen3-0.6B',
      library_name: 'peft',
      pipeline_tag: 'text-generation',
      tags: ['lora', 'grpo', 'legal', 'statute-retrieval', 'lexpo'],
    });
    for (const text of [
      'run `demo`, after 2 of 4 GRPO steps, seed 5',
      'Greedy answers. 4 questions.',
      '| single-pass (the question searched as it is) | 0.125 | 0.063 | 0.031 |  |  |  |',
      '| before GRPO (after the warm start) | 0.250 | 0.125 | 0.063 | 25.0 % | 2.00 | 10.0 |',
      '| this adapter | 0.500 | 0.250 | 0.125 | 25.0 % | 2.00 | 10.0 |',
      '| after | before | 4 | +25.0 | [-1.2, +50.0] |',
      '| searched | `laws.jsonl` | 1234 articles | `laws.jsonllaws.jsonl` |',
      '| trained on | `train.jsonl` | 77 questions |',
      'rank 4, alpha 8, so B·A counts 2 times, on `q_proj`, `v_proj`',
      'vllm serve Qwen/Qwen3-0.6B --enable-lora --max-lora-rank 8 --lora-modules demo-v2=<this folder>',
      'picked among those of its run on the held-out questions',
    ])
      expect(body).toContain(text);
    const settings = parse(/```yaml\n([\s\S]*?)```/.exec(body)![1]!) as Record<string, object>;
    expect(Object.keys(settings)).not.toContain('model');
    expect(settings).toMatchObject({ lora: SPEC, train: { steps: 4 }, sft: { share: 0.3 } });
    // q 24 × 16, v 12 × 16, rank 4, two layers.
    expect(body).toContain(`${(2 * 4 * (24 + 16 + 12 + 16)).toString()} parameters`);
  });

  test('of another adapter than the chosen one: its own evaluation, or none', async () => {
    await exported({ checkpoint: 'demo-v4' });
    expect(card()).toContain('| before GRPO (after the warm start) | 0.250 |');
    expect(card()).toContain('| this adapter | 0.400 |');
    expect(card()).not.toContain('95 %');
    expect(card()).not.toContain('picked among');
    writeJson(join(run.root, 'evaluations', 'step-000000.json'), evaluationOf(0.25, 9));
    await exported({ checkpoint: 'demo-v4', force: true });
    // Measured on other questions: not beside each other.
    expect(card()).not.toContain('before GRPO (');
    cpSync(join(run.root, 'adapters', 'demo-v4'), join(run.root, 'adapters', 'demo-v4-r2'), {
      recursive: true,
    });
    await exported({ checkpoint: 'demo-v4', force: true });
    expect(card()).toContain('None were recorded');
  });

  test('an old run that recorded nothing', async () => {
    for (const name of ['inputs.json', 'report.json', 'evaluations'])
      rmSync(join(run.root, name), { recursive: true });
    await exported();
    expect(card()).toContain('None were recorded');
    expect(card()).toContain('| trained on | `train.jsonl` |\n');
    expect(card()).not.toMatch(/undefined|NaN/);
  });
});
