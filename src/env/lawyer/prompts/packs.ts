/** What the Lawyer is told, by pack: data, like the packs of LegalMALR. */
import type { LawyerPack } from '../config.ts';

export interface LawyerPrompts {
  system: string;
  /** Before the first turn: `{query}`, `{turn}`, `{turns}`. */
  question: string;
  /** After a search: `{evidence}`, `{turn}`, `{turns}`. */
  found: string;
  /** The same where nothing new came. */
  nothing: string;
  /** After a search that was made before. */
  repeated: string;
  /** After a query of mostly unknown words. */
  unknown: string;
  /** After a turn that cannot be read: `{reason}`. */
  corrective: string;
  /** One piece of evidence: `{number}`, `{title}`, `{text}`. */
  statute: string;
  precedent: string;
}

const INSTRUCT_FORM = `{"action":"STATUTE","query":"…","intent":"…"}
{"action":"PRECEDENT","query":"…","charges":["…"]}
{"action":"STOP"}`;

const zh: LawyerPrompts = {
  system: `你是查找法律依据的律师。每一轮先简短思考，再用一行 JSON 结束，只选一个动作：
${INSTRUCT_FORM}
STATUTE 查法条：query 用法条的用语，intent 说明要找什么（构成要件、量刑幅度、例外情形、定义、程序等）。
PRECEDENT 查类似判例（只有刑事）：query 写案情要点，charges 写罪名。
依据足够就 STOP，由法官据此作答。不要重复同样的检索。`,
  question: '{query}\n\n第{turn}轮，共{turns}轮。',
  found: '查到：\n{evidence}\n\n第{turn}轮，共{turns}轮。继续、换一种来源，或 STOP。',
  nothing: '没有查到新的依据。\n\n第{turn}轮，共{turns}轮。',
  repeated: '这个检索已经做过，没有再查。\n\n第{turn}轮，共{turns}轮。',
  unknown: '检索词大多不在所查的文本里，没有检索。\n\n第{turn}轮，共{turns}轮。',
  corrective: `上一轮无法读取（{reason}）。请只用下列形式之一结束：\n${INSTRUCT_FORM}`,
  statute: '{number}. {title}：{text}',
  precedent: '{number}. 判例 {title}：{text}',
};

const en: LawyerPrompts = {
  system: `You are a lawyer who gathers the legal basis for an answer. Each turn, think briefly, then end with one line of JSON, one action:
${INSTRUCT_FORM}
STATUTE searches articles: query in the words that statutes use, intent says what you look for (elements of an offence, sentencing range, an exception, a definition, procedure).
PRECEDENT searches similar judgments (criminal only): query holds the facts that matter, charges the offences.
STOP once the evidence suffices; a judge then answers from it. Do not repeat a search.`,
  question: '{query}\n\nTurn {turn} of {turns}.',
  found: 'Found:\n{evidence}\n\nTurn {turn} of {turns}. Go on, switch the source, or STOP.',
  nothing: 'Nothing new was found.\n\nTurn {turn} of {turns}.',
  repeated: 'That search was made before; it was not made again.\n\nTurn {turn} of {turns}.',
  unknown:
    'Most words of that query stand in no text that it would search; it was not searched.\n\nTurn {turn} of {turns}.',
  corrective: `The last turn could not be read ({reason}). End with exactly one of these forms:\n${INSTRUCT_FORM}`,
  statute: '{number}. {title}: {text}',
  precedent: '{number}. Judgment, {title}: {text}',
};

/** A dozen characters a turn: a small model learns the form from its warm start, not from instructions. */
const zhCompact: LawyerPrompts = {
  system: '律师',
  question: '{query}',
  found: '{evidence}',
  nothing: '无',
  repeated: '重',
  unknown: '生',
  corrective: '误',
  statute: '{text}',
  precedent: '{text}',
};

export const LAWYER_PROMPTS: Record<LawyerPack, LawyerPrompts> = { zh, en, 'zh-compact': zhCompact };
