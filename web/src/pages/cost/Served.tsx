import { Num } from "@/components/figures";

/** Heads of the columns that `ServedCells` fill. */
export function ServedHeads() {
  return (
    <>
      <th scope="col" className="right">Requests</th>
      <th scope="col" className="right">Tokens of prompts</th>
      <th scope="col" className="right">Tokens of answers</th>
    </>
  );
}

/** What was served. */
export function ServedCells({ of }: { of: { requests: number; prompt_tokens: number; output_tokens: number } }) {
  return (
    <>
      <td className="right"><Num value={of.requests} /></td>
      <td className="right"><Num value={of.prompt_tokens} /></td>
      <td className="right"><Num value={of.output_tokens} /></td>
    </>
  );
}
