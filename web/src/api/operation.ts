import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { api, got, type Schemas } from "./client";

export type OperationDocument = Schemas["Operation"];
const OVER = ["succeeded", "failed", "cancelled"];

/** Starts long work and follows it to its end. `touches`: first words of what to read again then. */
export function useOperation<A>(start: (asked: A) => Promise<OperationDocument>, touches: string[] = []) {
  const client = useQueryClient();
  const [id, setId] = useState<string | null>(null);
  const told = useRef<string | null>(null);
  const begin = useMutation({
    mutationFn: start,
    onSuccess: (operation) => {
      client.setQueryData(["operations", operation.id], operation);
      setId(operation.id);
    },
  });
  const followed = useQuery({
    queryKey: ["operations", id],
    queryFn: () => got(api.GET("/api/v1/operations/{operation_id}", { params: { path: { operation_id: id ?? "" } } })),
    enabled: id !== null,
    refetchInterval: (query) => (OVER.includes(query.state.data?.state ?? "") ? false : 700),
  });
  const operation = id === null ? undefined : followed.data;
  const isOver = operation !== undefined && OVER.includes(operation.state);
  useEffect(() => {
    if (!isOver || told.current === id) return;
    told.current = id;
    void client.invalidateQueries({ predicate: (query) => touches.includes(String(query.queryKey[0])) });
  });
  return {
    begin: begin.mutate,
    operation,
    isBusy: begin.isPending || (id !== null && !isOver),
    error: begin.error,
    cancel: () => id && got(api.POST("/api/v1/operations/{operation_id}:cancel", { params: { path: { operation_id: id } } })),
    clear: () => {
      begin.reset();
      setId(null);
    },
  };
}
