---- MODULE Ewd998 ----
EXTENDS Integers
CONSTANTS N, Most
VARIABLES active, black, counter, pending, token
vars == <<active, black, counter, pending, token>>
Nodes == 0..(N - 1)
Init == /\ active \in [Nodes -> BOOLEAN] /\ black \in [Nodes -> BOOLEAN]
        /\ counter = [n \in Nodes |-> 0] /\ pending = [n \in Nodes |-> 0]
        /\ token \in {[at |-> n, sum |-> 0, black |-> TRUE] : n \in Nodes}
StartProbe == /\ token.at = 0 /\ (token.black \/ black[0] \/ token.sum + counter[0] > 0) = TRUE
              /\ token' = [at |-> N - 1, sum |-> 0, black |-> FALSE]
              /\ black' = [black EXCEPT ![0] = FALSE] /\ UNCHANGED <<active, counter, pending>>
PassToken(n) == /\ n > 0 /\ token.at = n /\ ~ active[n]
                /\ token' = [at |-> n - 1, sum |-> token.sum + counter[n], black |-> token.black \/ black[n]]
                /\ black' = [black EXCEPT ![n] = FALSE] /\ UNCHANGED <<active, counter, pending>>
Send(n, to) == /\ n # to /\ active[n] /\ counter[n] < Most /\ pending[to] < Most
               /\ counter' = [counter EXCEPT ![n] = @ + 1] /\ pending' = [pending EXCEPT ![to] = @ + 1]
               /\ UNCHANGED <<active, black, token>>
Receive(n) == /\ pending[n] > 0
              /\ pending' = [pending EXCEPT ![n] = @ - 1] /\ counter' = [counter EXCEPT ![n] = @ - 1]
              /\ black' = [black EXCEPT ![n] = TRUE] /\ active' = [active EXCEPT ![n] = TRUE]
              /\ UNCHANGED token
Stop(n) == active[n] /\ active' = [active EXCEPT ![n] = FALSE] /\ UNCHANGED <<black, counter, pending, token>>
System == StartProbe \/ \E n \in Nodes : PassToken(n)
Next == System \/ \E n \in Nodes : Receive(n) \/ Stop(n) \/ \E to \in Nodes : Send(n, to)
Spec == Init /\ [][Next]_vars /\ WF_vars(System)
UnfairSpec == Init /\ [][Next]_vars
Found == token.at = 0 /\ token.sum + counter[0] = 0 /\ ~ token.black /\ ~ black[0] /\ ~ active[0]
Over == \A n \in Nodes : ~ active[n] /\ pending[n] = 0
Truthful == Found => Over
Detected == Over ~> Found
====
