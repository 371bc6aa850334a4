---- MODULE Allocator ----
EXTENDS FiniteSets
\* may not end
CONSTANTS Clients, Resources
VARIABLES asked, held
vars == <<asked, held>>
Some == SUBSET Resources \ {{}}
Init == asked = [c \in Clients |-> {}] /\ held = [c \in Clients |-> {}]
Free == Resources \ UNION {held[c] : c \in Clients}
Request(c, S) == asked[c] = {} /\ held[c] = {} /\ asked' = [asked EXCEPT ![c] = S] /\ UNCHANGED held
Allocate(c, S) == /\ S \subseteq asked[c] \cap Free /\ S = asked[c]
                  /\ asked' = [asked EXCEPT ![c] = @ \ S] /\ held' = [held EXCEPT ![c] = @ \cup S]
GiveBack(c, S) == /\ asked[c] = {} /\ S \subseteq held[c]
                  /\ held' = [held EXCEPT ![c] = @ \ S] /\ UNCHANGED asked
Next == \E c \in Clients, S \in Some : Request(c, S) \/ Allocate(c, S) \/ GiveBack(c, S)
Spec == /\ Init /\ [][Next]_vars
        /\ \A c \in Clients : /\ WF_vars(\E S \in Some : GiveBack(c, S))
                              /\ SF_vars(\E S \in Some : Allocate(c, S))
Exclusion == \A c, d \in Clients : c # d => held[c] \cap held[d] = {}
Served == \A c \in Clients : (asked[c] # {}) ~> (asked[c] = {})
====
