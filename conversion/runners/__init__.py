"""Where the parts of a job are done: in the calling thread, in processes of this machine, on Beam."""
