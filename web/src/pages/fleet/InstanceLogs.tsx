import { useQuery } from "@tanstack/react-query";
import { useAddress } from "@/address";
import type { Schemas } from "@/api/client";
import { foundInLogs, instanceLogs } from "@/api/queries";
import { Empty, Loaded } from "@/components/feedback";
import { LogLines } from "./LogLines";

/** What its nodes wrote: the end of it, or the lines that hold what is searched for, which the address says. */
export function InstanceLogs({ id }: { id: string }) {
  const [said, say] = useAddress();
  const find = (said.get("find") ?? "").slice(0, 200);
  return (
    <div className="stack">
      <input className="input" type="search" aria-label="Find in the logs" placeholder="Find in the logs…" maxLength={200} value={find} onChange={(event) => say({ find: event.target.value })} />
      {find.trim() ? <Found id={id} text={find.trim()} /> : <Ends id={id} />}
    </div>
  );
}

function Ends({ id }: { id: string }) {
  const said = useQuery(instanceLogs(id));
  return (
    <Loaded query={said}>
      {({ items }) =>
        items.length === 0 ? (
          <NoNode />
        ) : (
          <div className="stack">
            {items.map((log) => (
              <NodeLines key={log.node} node={log.node} side={ofWhole(log)} missing={log.missing} lines={linesOf(log)} none="It has said nothing yet." />
            ))}
          </div>
        )
      }
    </Loaded>
  );
}

function Found({ id, text }: { id: string; text: string }) {
  const found = useQuery(foundInLogs(id, text));
  return (
    <Loaded query={found}>
      {({ items }) =>
        items.length === 0 ? (
          <NoNode />
        ) : (
          <div className="stack" aria-busy={found.isPlaceholderData}>
            {items.map((log) => (
              <NodeLines
                key={log.node}
                node={log.node}
                side={`${log.lines.length} ${log.lines.length === 1 ? "line" : "lines"}${log.are_all ? "" : ", the newest"}`}
                missing={log.missing}
                lines={log.lines}
                find={text}
                none="No line holds it."
              />
            ))}
          </div>
        )
      }
    </Loaded>
  );
}

function NoNode() {
  return (
    <Empty title="No node yet" compact>
      <p>Logs appear here when its nodes are there.</p>
    </Empty>
  );
}

function ofWhole(log: Schemas["NodeLog"]): string {
  return log.size_bytes > log.text.length ? `the end of ${Math.ceil(log.size_bytes / 1024).toLocaleString()} KiB` : "";
}

/** The first one begins amid a line where there is more before it. */
function linesOf(log: Schemas["NodeLog"]): string[] {
  const lines = log.text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return log.size_bytes > log.text.length ? lines.slice(1) : lines;
}

type NodeLinesProps = { node: string; side: string; missing: string; lines: string[]; find?: string; none: string };

function NodeLines({ node, side, missing, lines, find, none }: NodeLinesProps) {
  return (
    <section className="card" aria-label={`Log of ${node}`}>
      <header>
        <h3 className="mono clip">{node}</h3>
        {side && !missing && <span className="muted">{side}</span>}
      </header>
      <div className="body">
        {missing ? <p className="muted break">{missing}</p> : lines.length ? <LogLines lines={lines} find={find} /> : <p className="muted">{none}</p>}
      </div>
    </section>
  );
}
