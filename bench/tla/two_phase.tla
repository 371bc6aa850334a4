---- MODULE TwoPhaseCommit ----
CONSTANT Managers
VARIABLES manager, decision, prepared, sent

Init == /\ manager = [m \in Managers |-> "working"]
        /\ decision = "init"
        /\ prepared = {}
        /\ sent = {}

Commit == /\ decision = "init"
          /\ prepared = Managers
          /\ decision' = "committed"
          /\ sent' = sent \cup {[kind |-> "commit"]}
          /\ UNCHANGED <<manager, prepared>>

Abort == /\ decision = "init"
         /\ decision' = "aborted"
         /\ sent' = sent \cup {[kind |-> "abort"]}
         /\ UNCHANGED <<manager, prepared>>

HearPrepared(m) == /\ decision = "init"
                   /\ [kind |-> "prepared", by |-> m] \in sent
                   /\ prepared' = prepared \cup {m}
                   /\ UNCHANGED <<manager, decision, sent>>

Prepare(m) == /\ manager[m] = "working"
              /\ manager' = [manager EXCEPT ![m] = "prepared"]
              /\ sent' = sent \cup {[kind |-> "prepared", by |-> m]}
              /\ UNCHANGED <<decision, prepared>>

ChooseToAbort(m) == /\ manager[m] = "working"
                    /\ manager' = [manager EXCEPT ![m] = "aborted"]
                    /\ UNCHANGED <<decision, prepared, sent>>

HearCommit(m) == /\ [kind |-> "commit"] \in sent
                 /\ manager' = [manager EXCEPT ![m] = "committed"]
                 /\ UNCHANGED <<decision, prepared, sent>>

HearAbort(m) == /\ [kind |-> "abort"] \in sent
                /\ manager' = [manager EXCEPT ![m] = "aborted"]
                /\ UNCHANGED <<decision, prepared, sent>>

Next == \/ Commit
        \/ Abort
        \/ \E m \in Managers : \/ HearPrepared(m) \/ Prepare(m) \/ ChooseToAbort(m)
                               \/ HearCommit(m) \/ HearAbort(m)

Agreement == \A m, n \in Managers : ~(manager[m] = "committed" /\ manager[n] = "aborted")
Spec == Init /\ [][Next]_<<manager, decision, prepared, sent>>
====
