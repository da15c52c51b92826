import type { ReactNode } from "react";
import { TableBox } from "./TableBox";

export type NowThenRow = { key: string; name: ReactNode; now: ReactNode; then: ReactNode; last: ReactNode; isWorse?: boolean };

type NowThenTableProps = { name: string; rows: NowThenRow[]; now?: string; last?: string };

/** What is beside what would be. `last`: what the column that follows says of the two. */
export function NowThenTable({ name, rows, now = "Now", last = "Change" }: NowThenTableProps) {
  return (
    <TableBox label={name}>
      <table>
        <thead>
          <tr>
            <th scope="col">{name}</th>
            <th scope="col" className="right">{now}</th>
            <th scope="col" className="right">Then</th>
            <th scope="col" className="right">{last}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key}>
              <td className="name">{row.name}</td>
              <td className="right">{row.now}</td>
              <td className="right">{row.then}</td>
              <td className={row.isWorse ? "right warn" : "right"}>{row.last}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}
