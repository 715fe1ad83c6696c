import { describe, expect, it } from 'vitest';
import { parseQueries } from './parse-queries.ts';

const limits = { maxDecomposed: 4, maxQueryChars: 10 };
const ok = (...queries: string[]) => ({ kind: 'ok', queries });
const failed = (reason: string) => ({ kind: 'failed', reason });

describe('a rewriter that gives one query', () => {
  it('trims', () => {
    expect(parseQueries('rewrite_single', ' \n押金返还\n', limits)).toEqual(ok('押金返还'));
  });

  it('cuts at whole characters, also outside the basic plane', () => {
    expect(parseQueries('repair', '一二三四五六七八九十百', limits)).toEqual(ok('一二三四五六七八九十'));
    expect(parseQueries('repair', '𠮷'.repeat(11), limits)).toEqual(ok('𠮷'.repeat(10)));
    expect(parseQueries('repair', '𠮷'.repeat(10), limits)).toEqual(ok('𠮷'.repeat(10)));
  });

  it('leaves no blank at the cut', () => {
    expect(parseQueries('repair', 'unlawful  eviction', limits)).toEqual(ok('unlawful'));
  });

  it.each(['', '   ', '\n\n', '\u3000'])('refuses %j as empty', (text) => {
    expect(parseQueries('supportive_law', text, limits)).toEqual(failed('empty'));
  });

  it('refuses several lines', () => {
    expect(parseQueries('rewrite_supplement', '甲\n乙', limits)).toEqual(failed('more than one line'));
    expect(parseQueries('rewrite_supplement', '甲\r乙', limits)).toEqual(failed('more than one line'));
  });

  it('takes JSON as the text it is', () => {
    expect(parseQueries('rewrite_single', '["甲"]', limits)).toEqual(ok('["甲"]'));
  });
});

describe('the decomposer', () => {
  it.each([
    ['["甲"]', ok('甲')],
    [' [ "甲" ,\n"乙" ] ', ok('甲', '乙')],
    ['["乙","甲","乙"," 甲 "]', ok('乙', '甲')],
    ['["1","2","3","4"]', ok('1', '2', '3', '4')],
    ['["1","2","3","4","4"]', ok('1', '2', '3', '4')],
    ['["一二三四五六七八九十A","一二三四五六七八九十B"]', ok('一二三四五六七八九十')],
    ['["1","2","3","4","5"]', failed('too many sub-queries')],
    ['[]', failed('no sub-query')],
    ['["甲",""]', failed('empty')],
    ['["甲"," "]', failed('empty')],
    ['["甲",2]', failed('not an array of strings')],
    ['["甲",null]', failed('not an array of strings')],
    ['[["甲"]]', failed('not an array of strings')],
    ['{"queries":["甲"]}', failed('not an array of strings')],
    ['"甲"', failed('not an array of strings')],
    ['甲；乙', failed('not JSON')],
    ['["甲"', failed('not JSON')],
    ['["甲"] 完', failed('not JSON')],
    ['', failed('empty')],
  ])('reads %j', (text, expected) => {
    expect(parseQueries('decompose', text, limits)).toEqual(expected);
  });
});
