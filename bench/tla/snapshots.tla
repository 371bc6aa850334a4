---- MODULE Snapshots ----
\* may not end
CONSTANTS Keys, Values, Transactions
VARIABLES store, open, seen, written, missed
vars == <<store, open, seen, written, missed>>
Nothing == [k \in Keys |-> "none"]
Init == /\ store = Nothing /\ open = {} /\ seen = [t \in Transactions |-> Nothing]
        /\ written = [t \in Transactions |-> {}] /\ missed = [t \in Transactions |-> {}]
Begin(t) == /\ t \notin open /\ open' = open \cup {t} /\ seen' = [seen EXCEPT ![t] = store]
            /\ UNCHANGED <<store, written, missed>>
Put(t, k, v) == /\ t \in open /\ seen[t][k] # v /\ seen' = [seen EXCEPT ![t][k] = v]
                /\ written' = [written EXCEPT ![t] = @ \cup {k}] /\ UNCHANGED <<store, open, missed>>
Commit(t) == /\ t \in open /\ written[t] \cap missed[t] = {}
             /\ store' = [k \in Keys |-> IF k \in written[t] THEN seen[t][k] ELSE store[k]]
             /\ missed' = [u \in Transactions |-> IF u = t THEN {}
                               ELSE IF u \in open THEN missed[u] \cup written[t] ELSE missed[u]]
             /\ open' = open \ {t} /\ seen' = [seen EXCEPT ![t] = Nothing]
             /\ written' = [written EXCEPT ![t] = {}]
RollBack(t) == /\ t \in open /\ open' = open \ {t} /\ seen' = [seen EXCEPT ![t] = Nothing]
               /\ written' = [written EXCEPT ![t] = {}] /\ missed' = [missed EXCEPT ![t] = {}]
               /\ UNCHANGED store
Next == \E t \in Transactions : \/ Begin(t) \/ Commit(t) \/ RollBack(t)
                                \/ \E k \in Keys, v \in Values \cup {"none"} : Put(t, k, v)
Spec == Init /\ [][Next]_vars
Snapshot == \A t \in open, k \in Keys : k \notin written[t] \cup missed[t] => seen[t][k] = store[k]
NoLostUpdate == [][\A t \in open \ open' : \A k \in missed[t] : store'[k] = store[k]]_vars
====
