import { expect, test } from 'vitest';
import { stream } from '../../base/random.ts';
import { gramOfKey, telltaleTerms, termsOf, visitTerms } from './terms.ts';

test('Chinese: characters and neighbouring pairs within a run', () => {
  expect(termsOf('租赁合同')).toEqual(['租', '赁', '租赁', '合', '赁合', '同', '合同']);
  expect(termsOf('甲，乙丙')).toEqual(['甲', '乙', '丙', '乙丙']);
  expect(termsOf('甲 乙\n丙')).toEqual(['甲', '乙', '丙']);
});

test('other scripts and digits: lower-cased words without a plural s', () => {
  expect(termsOf("The Tenants' Deposit, 30 days")).toEqual(['the', 'tenant', 'deposit', '30', 'day']);
  expect(termsOf('remedies leases duties taxes')).toEqual(['remedy', 'lease', 'duty', 'taxe']);
  expect(termsOf('was bus class status gas')).toEqual(['was', 'bus', 'class', 'status', 'gas']);
  expect(termsOf('Straße Договор')).toEqual(['straße', 'договор']);
});

test('mixed text: a word ends a run and the other way round', () => {
  expect(termsOf('签订A4合同2份')).toEqual(['签', '订', '签订', 'a4', '合', '同', '合同', '2', '份']);
});

test('full-width forms are folded, rare ideographs are terms of their own', () => {
  expect(termsOf('ＡＢＣ１２')).toEqual(['abc12']);
  expect(termsOf('甲𠮷乙')).toEqual(['甲', '𠮷', '乙']);
  expect(termsOf('a𠮷b')).toEqual(['a', '𠮷', 'b']);
  expect(termsOf('😀a\ud800b')).toEqual(['a', 'b']);
  expect(termsOf('')).toEqual([]);
});

test('a run of n characters has 2n − 1 terms, each a substring', () => {
  const random = stream(1, 'terms');
  for (let round = 0; round < 100; round++) {
    const n = 1 + random.int(30);
    const run = Array.from({ length: n }, () => String.fromCharCode(0x4e00 + random.int(2000))).join('');
    const terms = termsOf(`，${run}。`);
    expect(terms).toHaveLength(2 * n - 1);
    for (const term of terms) expect(run).toContain(term);
  }
});

test('keys and texts of grams agree', () => {
  const keys: number[] = [];
  visitTerms('鿿法鿿', { gram: (key) => keys.push(key), word: () => {} });
  expect(keys.every((key) => key > 0 && key < 2 ** 32)).toBe(true);
  expect(keys.map(gramOfKey)).toEqual(['鿿', '法', '鿿法', '鿿', '法鿿']);
});

test('telltale terms: pairs, words, lone characters; no numbers', () => {
  expect(telltaleTerms('租赁合同，法 Deposits 2024')).toEqual(['租赁', '赁合', '合同', 'deposit', '法']);
  expect(telltaleTerms('法，合法')).toEqual(['合法']);
  expect(telltaleTerms('2024 ……')).toEqual([]);
});
