---- MODULE CoffeeCan ----
EXTENDS Naturals
CONSTANT Beans
VARIABLES black, white
vars == <<black, white>>
Init == black \in 0..Beans /\ white \in 0..Beans /\ black + white \in 1..Beans
TwoBlack == black >= 2 /\ black' = black - 1 /\ UNCHANGED white
TwoWhite == white >= 2 /\ white' = white - 2 /\ black' = black + 1
OneOfEach == white >= 1 /\ black >= 1 /\ black' = black - 1 /\ UNCHANGED white
Next == TwoBlack \/ TwoWhite \/ OneOfEach
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)
Parity == [][white % 2 = white' % 2]_vars
Ends == <>(black + white = 1)
====
