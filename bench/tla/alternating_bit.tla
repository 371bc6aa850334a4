---- MODULE AlternatingBit ----
EXTENDS Sequences, Naturals
\* may not end
CONSTANTS Data, Room
VARIABLES wire, acks, sending, acked, received
vars == <<wire, acks, sending, acked, received>>
D0 == CHOOSE d \in Data : TRUE
Init == /\ wire = <<>> /\ acks = <<>> /\ acked = FALSE
        /\ sending = <<FALSE, D0>> /\ received = <<FALSE, D0>>
Without(s, i) == [j \in 1..(Len(s) - 1) |-> IF j < i THEN s[j] ELSE s[j + 1]]
Losable(s) == {i \in 1..Len(s) : TRUE}
Accept(d) == acked = sending[1] /\ sending' = <<~ sending[1], d>> /\ UNCHANGED <<wire, acks, acked, received>>
Send == /\ acked # sending[1] /\ Len(wire) < Room
        /\ wire' = Append(wire, sending) /\ UNCHANGED <<acks, sending, acked, received>>
Receive == /\ wire # <<>> /\ wire' = Tail(wire)
           /\ received' = IF Head(wire)[1] # received[1] THEN Head(wire) ELSE received
           /\ UNCHANGED <<acks, sending, acked>>
Acknowledge == /\ Len(acks) < Room /\ acks' = Append(acks, received[1])
               /\ UNCHANGED <<wire, sending, acked, received>>
Hear == /\ acks # <<>> /\ acked' = Head(acks) /\ acks' = Tail(acks) /\ UNCHANGED <<wire, sending, received>>
LoseWire == \E i \in Losable(wire) : wire' = Without(wire, i) /\ UNCHANGED <<acks, sending, acked, received>>
LoseAck == \E i \in Losable(acks) : acks' = Without(acks, i) /\ UNCHANGED <<wire, sending, acked, received>>
Next == (\E d \in Data : Accept(d)) \/ Send \/ Receive \/ Acknowledge \/ Hear \/ LoseWire \/ LoseAck
Spec == /\ Init /\ [][Next]_vars /\ WF_vars(Send) /\ WF_vars(Acknowledge) /\ SF_vars(Receive) /\ SF_vars(Hear)
WeakSpec == Init /\ [][Next]_vars /\ WF_vars(Send) /\ WF_vars(Acknowledge) /\ WF_vars(Receive) /\ WF_vars(Hear)
InStep == acked = sending[1] => received = sending
Delivered == (sending[1] # acked) ~> (sending = received)
====
