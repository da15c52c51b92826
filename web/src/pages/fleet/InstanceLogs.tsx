import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { instanceLogs } from "@/api/queries";
import { Empty, Loaded } from "@/components/feedback";

/** The end of what each of its nodes has said. */
export function InstanceLogs({ id }: { id: string }) {
  const said = useQuery(instanceLogs(id));
  return (
    <Loaded query={said}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="No node yet" compact>
            <p>Logs appear here when its nodes are there.</p>
          </Empty>
        ) : (
          <div className="stack">
            {items.map((log) => (
              <NodeLog key={log.node} log={log} />
            ))}
          </div>
        )
      }
    </Loaded>
  );
}

function NodeLog({ log }: { log: Schemas["NodeLog"] }) {
  return (
    <section className="card">
      <header>
        <h3 className="mono clip">{log.node}</h3>
        {log.size_bytes > log.text.length && <span className="muted">the end of {Math.ceil(log.size_bytes / 1024).toLocaleString()} KiB</span>}
      </header>
      <div className="body">
        {log.missing ? (
          <p className="muted break">{log.missing}</p>
        ) : (
          <pre className="log" tabIndex={0}>
            {log.text || "It has said nothing yet."}
          </pre>
        )}
      </div>
    </section>
  );
}
