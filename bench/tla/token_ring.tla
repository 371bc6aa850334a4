---- MODULE TokenRing ----
EXTENDS Naturals
CONSTANT N
VARIABLES active, black, token, tokenBlack
vars == <<active, black, token, tokenBlack>>
Nodes == 0..(N - 1)
Init == /\ active \in [Nodes -> BOOLEAN] /\ black \in [Nodes -> BOOLEAN]
        /\ token \in Nodes /\ tokenBlack = TRUE
StartProbe == /\ token = 0 /\ (tokenBlack \/ black[0]) = TRUE
              /\ token' = N - 1 /\ tokenBlack' = FALSE
              /\ black' = [black EXCEPT ![0] = FALSE] /\ UNCHANGED active
PassToken(i) == /\ i > 0 /\ token = i /\ (~ active[i] \/ black[i] \/ tokenBlack) = TRUE
                /\ token' = i - 1 /\ tokenBlack' = (tokenBlack \/ black[i])
                /\ black' = [black EXCEPT ![i] = FALSE] /\ UNCHANGED active
Message(i, j) == /\ i # j /\ active[i]
                 /\ active' = [active EXCEPT ![j] = TRUE]
                 /\ black' = [black EXCEPT ![i] = @ \/ j > i] /\ UNCHANGED <<token, tokenBlack>>
Stop(i) == active[i] /\ active' = [active EXCEPT ![i] = FALSE] /\ UNCHANGED <<black, token, tokenBlack>>
System == StartProbe \/ \E i \in Nodes : PassToken(i)
Next == System \/ (\E i, j \in Nodes : Message(i, j)) \/ \E i \in Nodes : Stop(i)
Spec == Init /\ [][Next]_vars /\ WF_vars(System)
Quiet == \A i \in Nodes : ~ active[i]
Found == token = 0 /\ ~ tokenBlack /\ ~ black[0] /\ ~ active[0]
Truthful == Found => Quiet
Detected == Quiet ~> Found
====
