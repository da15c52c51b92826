import { useInfiniteQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { keyCosts } from "@/api/ledger";
import { Button } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { percent, Usd } from "@/components/figures";
import { Meter } from "@/components/Meter";
import { TableBox } from "@/components/TableBox";
import { ServedCells, ServedHeads } from "./Served";

type KeyCost = Schemas["KeyCost"];

/** The part of each API key of the rent, what nobody used, and the rent that they add up to. */
export function Keys({ since }: { since: string }) {
  const read = useInfiniteQuery(keyCosts(since));
  return (
    <Card title="By API key" flush>
      <Loaded query={read}>
        {({ pages }) => {
          const keys = pages.flatMap((page) => page.items);
          const rent = pages[0]?.usd ?? 0;
          return keys.length || rent ? (
            <Split keys={keys} usd={rent} idle={pages[0]?.idle_usd ?? 0} />
          ) : (
            <Empty compact title="Nothing was rented or used in this span">
              A key pays its part of what served it: prompts and answers count as the instances that compute them cost.
            </Empty>
          );
        }}
      </Loaded>
      {read.hasNextPage && (
        <div className="more">
          <Button disabled={read.isFetchingNextPage} onClick={() => read.fetchNextPage()}>
            {read.isFetchingNextPage ? "Reading…" : "More keys"}
          </Button>
        </div>
      )}
    </Card>
  );
}

function Split({ keys, usd, idle }: { keys: KeyCost[]; usd: number; idle: number }) {
  const share = (name: string, part: number) => (
    <Meter label={`${name}: ${percent(usd ? part / usd : 0)} of the rent`} share={usd ? part / usd : 0} />
  );
  return (
    <TableBox label="By API key">
      <table>
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Project</th>
            <th scope="col" className="right">Its part</th>
            <th scope="col">Share</th>
            <th scope="col" className="right">A million tokens</th>
            <ServedHeads />
          </tr>
        </thead>
        <tbody>
          {keys.map((each) => (
            <tr key={`${each.project} ${each.key}`}>
              <td className="name">
                <div className="clip" title={called(each)}>{called(each)}</div>
                <div className="muted mono">{each.key}</div>
              </td>
              <td className="break">{each.project}</td>
              <td className="right strong"><Usd value={each.usd} /></td>
              <td style={{ minWidth: 120 }}>{share(called(each), each.usd)}</td>
              <td className="right"><Usd value={each.usd_per_million_tokens} none="none served" /></td>
              <ServedCells of={each} />
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Idle</th>
            <td />
            <td className="right strong"><Usd value={idle} /></td>
            <td style={{ minWidth: 120 }}>{share("Idle", idle)}</td>
            <td colSpan={4} className="muted">used by nobody</td>
          </tr>
          <tr>
            <th scope="row">Rent</th>
            <td />
            <td className="right strong"><Usd value={usd} /></td>
            <td colSpan={5} />
          </tr>
        </tfoot>
      </table>
    </TableBox>
  );
}

function called({ key, name, project }: KeyCost): string {
  if (key) return name || key;
  return project ? "(not told by key)" : "(no key was asked for)";
}
