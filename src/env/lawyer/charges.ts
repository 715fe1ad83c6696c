/** 罪名:盗窃;引诱、教唆、欺骗他人吸毒。 at the end of a question (LawBench's cases): each charge; none: an empty list. */
export function chargesNamed(question: string): string[] {
  const [, list = ''] = /罪名[:：]([^\n]*)$/u.exec(question.trim()) ?? [];
  return list
    .split(/[;；]/u)
    .map((charge) => charge.replace(/[。.\s]+$/u, '').trim())
    .filter((charge) => charge !== '');
}
