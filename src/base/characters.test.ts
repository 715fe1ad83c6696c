import { describe, expect, it } from 'vitest';
import { characterPairs, firstCharacters, lettersAndDigits } from './characters.ts';

describe('characters', () => {
  it('are never cut in two', () => {
    expect(['', '法', '法😀律', '😀😀'].map((text) => firstCharacters(text, 2))).toEqual([
      '',
      '法',
      '法😀',
      '😀😀',
    ]);
    expect(firstCharacters('法律', 0)).toBe('');
  });
  it('in pairs', () => {
    expect(characterPairs('盗窃😀窃')).toEqual(['盗窃', '窃😀', '😀窃']);
    expect([characterPairs('盗'), characterPairs('')]).toEqual([[], []]);
  });
  it('that count, whatever spacing, width, case and punctuation', () => {
    expect(lettersAndDigits(' 《刑法》第２６４条, ＡRT. é\n')).toBe(
      lettersAndDigits('刑法第264条art.e\u0301'),
    );
  });
});
