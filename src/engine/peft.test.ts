import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import { readDecoderConfig } from './model-config.ts';
import {
  checkAdapterFits,
  initAdapter,
  LORA_MODULES,
  loraScale,
  loraTensorShapes,
  readAdapter,
  writeAdapter,
} from './peft.ts';
import { readSafetensors, writeSafetensors } from './safetensors.ts';
import type { LoraSpec, TensorMap } from './types.ts';

const tiny = fileURLToPath(new URL('../../test/vectors/qwen3-tiny', import.meta.url));
const byPeft = join(tiny, 'adapter');
const config = readDecoderConfig(tiny);
const scratch = mkdtempSync(join(tmpdir(), 'peft-'));
afterAll(() => rmSync(scratch, { recursive: true }));
const spec: LoraSpec = { r: 4, alpha: 8, rslora: false, targets: [...LORA_MODULES] };

test('reads an adapter that PEFT wrote; it fits its base model', () => {
  const adapter = readAdapter(byPeft);
  expect({ ...adapter.spec, targets: adapter.spec.targets.sort() }).toEqual({
    ...spec,
    targets: spec.targets.sort(),
  });
  checkAdapterFits(adapter, config);
  expect([...adapter.tensors.keys()]).toEqual([...loraTensorShapes(config, adapter.spec).keys()]);
  const raw = readSafetensors(join(byPeft, 'adapter_model.safetensors')).tensors;
  expect(Object.fromEntries(adapter.tensors)).toEqual(Object.fromEntries(raw));
});

test('the tensors of a spec: order and shapes, whatever the order of the targets', () => {
  const shapes = loraTensorShapes(config, { ...spec, targets: ['down_proj', 'q_proj', 'k_proj', 'o_proj'] });
  const layer0 = 'base_model.model.model.layers.0';
  expect([...shapes].slice(0, 8)).toEqual([
    [`${layer0}.self_attn.q_proj.lora_A.weight`, [4, 32]],
    [`${layer0}.self_attn.q_proj.lora_B.weight`, [32, 4]],
    [`${layer0}.self_attn.k_proj.lora_A.weight`, [4, 32]],
    [`${layer0}.self_attn.k_proj.lora_B.weight`, [16, 4]],
    [`${layer0}.self_attn.o_proj.lora_A.weight`, [4, 32]],
    [`${layer0}.self_attn.o_proj.lora_B.weight`, [32, 4]],
    [`${layer0}.mlp.down_proj.lora_A.weight`, [4, 48]],
    [`${layer0}.mlp.down_proj.lora_B.weight`, [32, 4]],
  ]);
  expect(shapes.size).toBe(16);
  expect(() => loraTensorShapes(config, { ...spec, targets: ['q_proj', 'lm_head'] })).toThrow(/lm_head/);
  expect(() => loraTensorShapes(config, { ...spec, targets: [] })).toThrow(/no LoRA targets/);
  expect(() => loraTensorShapes(config, { ...spec, r: 0 })).toThrow(/r 0/);
  for (const alpha of [Number.NaN, 0, -1, Infinity])
    expect(() => loraTensorShapes(config, { ...spec, alpha })).toThrow(`alpha ${alpha}`);
  // More rank than width is a waste, not a mistake.
  expect(loraTensorShapes(config, { ...spec, r: 200 }).get(`${layer0}.mlp.down_proj.lora_B.weight`)).toEqual([
    32, 200,
  ]);
});

test('scale', () => {
  expect(loraScale({ ...spec, r: 16, alpha: 32 })).toBe(2);
  expect(loraScale({ ...spec, r: 16, alpha: 32, rslora: true })).toBe(8);
});

test('a fresh adapter: B zero, A uniform in ±1/√in, the same for the same stream', () => {
  const wide = { ...config, hiddenSize: 400, layers: 1 };
  const one = initAdapter(wide, { ...spec, r: 16 }, stream(1, 'init'));
  expect(one).toEqual(initAdapter(wide, { ...spec, r: 16 }, stream(1, 'init')));
  checkAdapterFits(one, wide);
  const a = one.tensors.get('base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight')!.data;
  const b = one.tensors.get('base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight')!.data;
  expect(b.every((x) => x === 0)).toBe(true);
  expect(Math.max(...a)).toBeLessThanOrEqual(1 / 20);
  expect(Math.max(...a)).toBeGreaterThan(0.99 / 20);
  // Uniform in ±1/20: variance 1/1200. 6400 draws: its standard error is 1.1 %.
  expect(a.reduce((sum, x) => sum + x * x, 0) / a.length / (1 / 1200)).toBeCloseTo(1, 1);
});

test('what is written comes back, atomically and never over another', async () => {
  const folder = join(scratch, 'adapters', 'run-v1');
  const adapter = initAdapter(
    config,
    { r: 2, alpha: 3, rslora: true, targets: ['v_proj', 'q_proj'] },
    stream(2, 'x'),
  );
  await writeAdapter(folder, adapter, { baseModel: 'Qwen/Qwen3-0.6B' });
  const back = readAdapter(folder);
  expect(back.spec).toEqual({ r: 2, alpha: 3, rslora: true, targets: ['q_proj', 'v_proj'] });
  expect([...back.tensors]).toEqual([...adapter.tensors]);
  expect(JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8'))).toEqual({
    base_model_name_or_path: 'Qwen/Qwen3-0.6B',
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    lora_alpha: 3,
    lora_dropout: 0,
    modules_to_save: null,
    peft_type: 'LORA',
    r: 2,
    target_modules: ['q_proj', 'v_proj'],
    task_type: 'CAUSAL_LM',
    use_dora: false,
    use_rslora: true,
  });
  await expect(writeAdapter(folder, adapter, { baseModel: 'x' })).rejects.toThrow(/run-v1: exists already/);
  expect([...readAdapter(folder).tensors]).toEqual([...adapter.tensors]);
  const broken = { ...adapter, tensors: new Map([['x', { shape: [2], data: new Float32Array(1) }]]) };
  await expect(writeAdapter(`${folder}b`, broken, { baseModel: 'x' })).rejects.toThrow(/shape/);
  expect(readdirSync(join(scratch, 'adapters'))).toEqual(['run-v1']);
});

/** A copy of PEFT's adapter with some config fields changed and its tensors passed through `edit`. */
function variant(changes: Record<string, unknown>, edit?: (tensors: TensorMap) => void): string {
  const folder = join(scratch, 'variant');
  if (existsSync(folder)) rmSync(folder, { recursive: true });
  mkdirSync(folder);
  cpSync(byPeft, folder, { recursive: true });
  const json = JSON.parse(readFileSync(join(byPeft, 'adapter_config.json'), 'utf8'));
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ ...json, ...changes }));
  if (edit) {
    const weights = join(folder, 'adapter_model.safetensors');
    const { tensors } = readSafetensors(weights);
    edit(tensors);
    writeSafetensors(weights, tensors, { dtype: 'BF16' });
  }
  return folder;
}

const OF_LAYER = 'model\\.layers\\.N\\.\\w+\\.\\w+_proj';
const pathOf = (module: string): string => `${/gate|up|down/.test(module) ? 'mlp' : 'self_attn'}.${module}`;

test('target_modules as an expression, as all-linear, as ends of paths; fields PEFT may add', () => {
  for (const target_modules of [
    OF_LAYER.replace('N', '[\\d]{1,}'),
    '(?:.*?(?:self_attn|mlp).*?(?:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj).*?)',
    'all-linear',
    'All-Linear',
    LORA_MODULES.map(pathOf),
    [0, 1].flatMap((layer) => LORA_MODULES.map((m) => `model.layers.${layer}.${pathOf(m)}`)),
  ]) {
    const { spec: found, tensors } = readAdapter(variant({ target_modules, of_the_future: { a: 1 } }));
    expect([...found.targets].sort()).toEqual([...LORA_MODULES].sort());
    expect(tensors.size).toBe(28);
  }
});

test('a pickled adapter is refused by its name', () => {
  const folder = variant({});
  rmSync(join(folder, 'adapter_model.safetensors'));
  writeFileSync(join(folder, 'adapter_model.bin'), 'x');
  expect(() => readAdapter(folder)).toThrow(/adapter_model.bin is not supported[\s\S]*safe_serialization/);
});

test('adapters of other kinds are refused by name', () => {
  expect(readAdapter(variant({}, () => {})).tensors.size).toBe(28);
  const q0 = 'base_model.model.model.layers.0.self_attn.q_proj';
  const cases: [RegExp, Record<string, unknown>, ((tensors: TensorMap) => void)?][] = [
    [/use_dora/, { use_dora: true }],
    [/rank_pattern/, { rank_pattern: { q_proj: 8 } }],
    [/alpha_pattern/, { alpha_pattern: { q_proj: 8 } }],
    [/modules_to_save/, { modules_to_save: ['lm_head'] }],
    [/layers_to_transform/, { layers_to_transform: [1] }],
    [/bias/, { bias: 'all' }],
    [/fan_in_fan_out/, { fan_in_fan_out: true }],
    [/init_lora_weights/, { init_lora_weights: 'pissa_niter_16' }],
    [/peft_type/, { peft_type: 'IA3' }],
    [/target_modules/, { target_modules: [] }],
    [/only Python knows/, { target_modules: '(?P<name>q_proj)' }],
    [/down_proj.lora_A.weight is not one of target_modules/, { target_modules: '.*\\.(q|v)_proj' }],
    [/layers.1.*is not one of target_modules/, { target_modules: OF_LAYER.replace('N', '0') }],
    [/layers.1.*is not one of target_modules/, { target_modules: LORA_MODULES.map((m) => `0.${pathOf(m)}`) }],
    [/unknown LoRA targets embed_tokens/, { target_modules: ['embed_tokens'] }],
    [/r: /, { r: '4' }],
    [/not of rank 8/, { r: 8 }],
    [/lora_A.weight is not one of target_modules/, { target_modules: ['k_proj'] }],
    [
      /unexpected tensor base_model.model.lm_head/,
      {},
      (t) => t.set('base_model.model.lm_head.weight', scalar),
    ],
    [/lora_B.weight is missing/, {}, (t) => t.delete(`${q0}.lora_B.weight`)],
    [/lora_A.weight is missing/, {}, (t) => t.delete(`${q0}.lora_A.weight`)],
    [/not two dimensions/, {}, (t) => t.set(`${q0}.lora_A.weight`, scalar)],
    [
      /no tensors for the target q_proj/,
      {},
      (t) => {
        for (const name of t.keys()) if (name.includes('q_proj')) t.delete(name);
      },
    ],
  ];
  for (const [message, changes, edit] of cases) {
    const folder = variant(changes, edit);
    expect(() => readAdapter(folder)).toThrow(message);
    expect(() => readAdapter(folder)).toThrow(UserError);
  }
  expect(() => readAdapter(tiny)).toThrow(/adapter_config.json is missing/);
  expect(() => readAdapter(join(tiny, 'nowhere'))).toThrow(/no such folder/);
});
const scalar = { shape: [1], data: Float32Array.of(1) };

test('an adapter for another base model is noticed', () => {
  const adapter = readAdapter(byPeft);
  expect(() => checkAdapterFits(adapter, { ...config, layers: 1 })).toThrow(/layers.1.*has no place/);
  expect(() => checkAdapterFits(adapter, { ...config, layers: 3 })).toThrow(/layers.2.*is missing/);
  expect(() => checkAdapterFits(adapter, { ...config, hiddenSize: 64 })).toThrow(
    /is \[4,32\], the model needs \[4,64\]/,
  );
  [...adapter.tensors.values()][3]!.data[5] = Number.NaN;
  expect(() => checkAdapterFits(adapter, config, 'here')).toThrow(/here: .*not finite/);
});
