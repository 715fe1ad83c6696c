import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { familyPath } from '../../test/vectors/families.ts';
import { parseRope, rotaryFrequencies } from './rotary.ts';

interface Case {
  headDim: number;
  parameters: Record<string, unknown>;
  magnitude: number;
  frequencies: number[];
}
const cases: Case[] = JSON.parse(readFileSync(familyPath('rotary.json'), 'utf8'));

test('frequencies of published sizes equal those of transformers', () => {
  for (const { headDim, parameters, magnitude, frequencies } of cases) {
    const parsed = parseRope(parameters, 'rope_parameters');
    if ('refused' in parsed) throw new Error(parsed.refused);
    const got = rotaryFrequencies(headDim, { theta: parsed.theta!, scaling: parsed.scaling });
    expect(got.magnitude).toBeCloseTo(magnitude, 12);
    expect(got.frequencies).toHaveLength(headDim / 2);
    got.frequencies.forEach((x, i) => {
      // a few units in the last place of f32
      expect(Math.abs(x / frequencies[i]! - 1), `${JSON.stringify(parameters)} ${i}`).toBeLessThan(4e-7);
    });
  }
  expect(new Set(cases.map(({ parameters }) => parameters.rope_type))).toEqual(
    new Set(['llama3', 'linear', 'yarn']),
  );
});

test('what depends on the length, or on the program that reads it, is refused by name', () => {
  const yarn = { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 64 };
  const llama3 = {
    rope_type: 'llama3',
    factor: 8,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 64,
  };
  const refused: [unknown, RegExp][] = [
    [{ rope_type: 'dynamic', factor: 2 }, /rope_scaling of type dynamic/],
    [{ type: 'longrope', factor: 2, long_factor: [1], short_factor: [1] }, /type longrope/],
    [{ type: 'mrope', mrope_section: [1, 1] }, /type mrope/],
    [{ rope_type: 'default', mrope_section: [1, 1] }, /rope_scaling.mrope_section with type default/],
    [{ rope_type: 'toString' }, /type toString/],
    [{ rope_type: 'linear', type: 'dynamic', factor: 2 }, /rope_type linear and type dynamic/],
    [{ factor: 2 }, /rope_scaling without a type/],
    [{ rope_type: 'linear' }, /rope_scaling.factor with type linear/],
    [{ rope_type: 'linear', factor: 0.5 }, /rope_scaling.factor/],
    [{ rope_type: 'linear', factor: 2, partial_rotary_factor: 0.5 }, /partial_rotary_factor/],
    [{ ...yarn, attention_factor: 1.2 }, /rope_scaling.attention_factor/],
    [{ ...yarn, mscale: 1, mscale_all_dim: 1 }, /rope_scaling.mscale, rope_scaling.mscale_all_dim/],
    [{ ...yarn, truncate: false }, /rope_scaling.truncate/],
    [{ ...yarn, original_max_position_embeddings: undefined }, /original_max_position_embeddings/],
    [{ ...llama3, low_freq_factor: undefined }, /low_freq_factor/],
    [{ ...llama3, high_freq_factor: 1 }, /high_freq_factor with type llama3 \(not above/],
    ['linear', /no object/],
    [{ full_attention: { rope_type: 'default' } }, /without a type/],
  ];
  for (const [value, message] of refused) {
    const parsed = parseRope(value, 'rope_scaling');
    expect('refused' in parsed ? parsed.refused : JSON.stringify(parsed)).toMatch(message);
  }
  expect(parseRope({ full_attention: { rope_theta: 1 } }, 'rope_parameters')).toMatchObject({
    refused: expect.stringContaining('full_attention'),
  });
});

test('plain forms', () => {
  const plain = { scaling: null, theta: null };
  expect(parseRope(null, 'rope_scaling')).toEqual(plain);
  expect(parseRope(undefined, 'rope_parameters')).toEqual(plain);
  expect(parseRope({ rope_theta: 5 }, 'rope_parameters')).toEqual({ scaling: null, theta: 5 });
  expect(parseRope({ type: 'default', rope_type: 'default' }, 'rope_scaling')).toEqual(plain);
});
