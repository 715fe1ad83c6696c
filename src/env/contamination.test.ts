import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { fingerprint, worstOverlap } from './contamination.ts';

const random = stream(1, 'contamination-test');
const text = (length: number): string =>
  Array.from({ length }, () => String.fromCodePoint(0x4e00 + random.int(3000))).join('');

describe('worstOverlap', () => {
  it('is 1 for a text that holds a test text, wherever and however it is spaced', () => {
    const tests = [text(60), text(25), text(12)];
    const prints = fingerprint(tests, 20);
    for (const [t, one] of tests.entries()) {
      const spaced = [...one].map((c, i) => (i % 5 === 0 ? `，${c} ` : c)).join('');
      expect(worstOverlap(text(30) + spaced + text(30), prints)).toEqual({ test: t, share: 1 });
      // Characters that nobody sees: a filler that counts as a letter, a joiner, a variation selector.
      for (const unseen of ['\u3164', '\u200d', '\ufe0f', '\u00ad'])
        expect(worstOverlap([...one].join(unseen), prints)).toEqual({ test: t, share: 1 });
    }
  });

  it('is the share of the test text that is held', () => {
    const test = text(119);
    const prints = fingerprint([text(50), test], 20);
    // 100 n-grams in all, of which the first 60 characters hold 41.
    expect(worstOverlap(test.slice(0, 60) + text(40), prints)).toEqual({ test: 1, share: 0.41 });
    expect(worstOverlap(test.slice(0, 19) + text(40), prints)).toBe(null);
  });

  it('is null for what shares nothing, and for nothing', () => {
    const prints = fingerprint([text(40), ''], 20);
    expect(worstOverlap(text(400), prints)).toBe(null);
    expect(worstOverlap('', prints)).toBe(null);
    expect(worstOverlap('！？', prints)).toBe(null);
  });

  it('knows the same letters in another width and case', () => {
    const prints = fingerprint(['ＡＢＣ公司拖欠工资'], 20);
    expect(worstOverlap('请问 abc 公司，拖欠工资，怎么办', prints)).toEqual({ test: 0, share: 1 });
  });
});
