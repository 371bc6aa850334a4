---- MODULE German ----
EXTENDS Naturals
\* may not end
CONSTANTS Nodes, Values
VARIABLES cache, request, answer, returned, granted, pending, isExclusive, serving, client, memory, latest
vars == <<cache, request, answer, returned, granted, pending, isExclusive, serving, client, memory, latest>>
V0 == CHOOSE v \in Values : TRUE
N0 == CHOOSE n \in Nodes : TRUE
Init == /\ cache = [n \in Nodes |-> [state |-> "invalid", value |-> V0]]
        /\ request = [n \in Nodes |-> "none"]
        /\ answer = [n \in Nodes |-> [type |-> "none", value |-> V0]]
        /\ returned = [n \in Nodes |-> [there |-> FALSE, value |-> V0]]
        /\ granted = {} /\ pending = {} /\ isExclusive = FALSE
        /\ serving = "none" /\ client = N0 /\ memory = V0 /\ latest = V0
Ask(n, wanted) == /\ request[n] = "none" /\ cache[n].state # "exclusive"
                  /\ (wanted = "exclusive" \/ cache[n].state = "invalid") = TRUE
                  /\ request' = [request EXCEPT ![n] = wanted]
                  /\ UNCHANGED <<cache, answer, returned, granted, pending, isExclusive, serving, client, memory, latest>>
Serve(n) == /\ serving = "none" /\ request[n] # "none"
            /\ serving' = request[n] /\ client' = n /\ pending' = granted
            /\ request' = [request EXCEPT ![n] = "none"]
            /\ UNCHANGED <<cache, answer, returned, granted, isExclusive, memory, latest>>
Invalidate(n) == /\ answer[n].type = "none" /\ n \in pending
                 /\ (serving = "exclusive" \/ (serving = "shared" /\ isExclusive)) = TRUE
                 /\ answer' = [answer EXCEPT ![n] = [type |-> "invalidate", value |-> V0]]
                 /\ pending' = pending \ {n}
                 /\ UNCHANGED <<cache, request, returned, granted, isExclusive, serving, client, memory, latest>>
GiveBack(n) == /\ answer[n].type = "invalidate" /\ ~ returned[n].there
               /\ LET v == IF cache[n].state = "exclusive" THEN cache[n].value ELSE V0
                  IN returned' = [returned EXCEPT ![n] = [there |-> TRUE, value |-> v]]
               /\ answer' = [answer EXCEPT ![n] = [type |-> "none", value |-> V0]]
               /\ cache' = [cache EXCEPT ![n] = [state |-> "invalid", value |-> V0]]
               /\ UNCHANGED <<request, granted, pending, isExclusive, serving, client, memory, latest>>
TakeBack(n) == /\ returned[n].there /\ serving # "none"
               /\ memory' = IF isExclusive THEN returned[n].value ELSE memory
               /\ returned' = [returned EXCEPT ![n] = [there |-> FALSE, value |-> V0]]
               /\ granted' = granted \ {n} /\ isExclusive' = FALSE
               /\ UNCHANGED <<cache, request, answer, pending, serving, client, latest>>
Grant(n) == /\ serving # "none" /\ client = n /\ answer[n].type = "none" /\ ~ isExclusive
            /\ (serving = "shared" \/ granted = {}) = TRUE
            /\ answer' = [answer EXCEPT ![n] = [type |-> serving, value |-> memory]]
            /\ granted' = granted \cup {n} /\ isExclusive' = (serving = "exclusive") /\ serving' = "none"
            /\ UNCHANGED <<cache, request, returned, pending, client, memory, latest>>
Receive(n) == /\ answer[n].type \in {"shared", "exclusive"}
              /\ cache' = [cache EXCEPT ![n] = [state |-> answer[n].type, value |-> answer[n].value]]
              /\ answer' = [answer EXCEPT ![n] = [type |-> "none", value |-> V0]]
              /\ UNCHANGED <<request, returned, granted, pending, isExclusive, serving, client, memory, latest>>
Store(n, v) == /\ cache[n].state = "exclusive"
               /\ cache' = [cache EXCEPT ![n].value = v] /\ latest' = v
               /\ UNCHANGED <<request, answer, returned, granted, pending, isExclusive, serving, client, memory>>
Next == \E n \in Nodes : \/ Ask(n, "shared") \/ Ask(n, "exclusive") \/ Serve(n) \/ Invalidate(n) \/ GiveBack(n)
                         \/ TakeBack(n) \/ Grant(n) \/ Receive(n) \/ \E v \in Values : Store(n, v)
Spec == Init /\ [][Next]_vars
Coherence == \A m, n \in Nodes : m # n /\ cache[m].state = "exclusive" => cache[n].state = "invalid"
Freshness == \A n \in Nodes : cache[n].state # "invalid" => cache[n].value = latest
====
