"""What the audit of publish is made of: the stage, the changes, the scenes, and what must hold."""
