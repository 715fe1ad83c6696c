import { expect, test } from 'vitest';
import { stream } from '../../base/random.ts';
import { termsOf } from './terms.ts';
import { createVocabulary } from './vocabulary.ts';

test('numbers are those of a plain map, however far the table grows', () => {
  const random = stream(2, 'vocabulary');
  const vocabulary = createVocabulary();
  const expected = new Map<string, number>();
  const seen: number[] = [];
  const wanted: number[] = [];
  for (let i = 0; i < 400; i++) {
    // About 80,000 distinct pairs: the table of 65,536 slots grows more than once.
    const text = Array.from({ length: 250 }, () => String.fromCharCode(0x4e00 + random.int(20_000))).join('');
    const mixed = `${text} word${random.int(50)} ${i}`;
    vocabulary.visit(mixed, (number) => seen.push(number));
    for (const term of termsOf(mixed)) {
      if (!expected.has(term)) expected.set(term, expected.size);
      wanted.push(expected.get(term)!);
    }
  }
  expect(vocabulary.size).toBe(expected.size);
  expect(expected.size).toBeGreaterThan(80_000);
  expect(Buffer.from(Int32Array.from(seen).buffer).equals(Buffer.from(Int32Array.from(wanted).buffer))).toBe(
    true,
  );
  let wrong = 0;
  for (const [term, number] of expected) if (vocabulary.numberOf(term) !== number) wrong++;
  expect(wrong).toBe(0);
});

test('an unknown term is -1 and does not enter', () => {
  const vocabulary = createVocabulary();
  vocabulary.visit('合同 lease', () => {});
  expect(vocabulary.size).toBe(4);
  expect(vocabulary.numbersOf('合同法 leases rent')).toEqual([0, 1, 2, -1, -1, 3, -1]);
  for (const term of ['', '法', '同合', 'rent', '合同法']) expect(vocabulary.numberOf(term)).toBe(-1);
  expect(vocabulary.size).toBe(4);
});
