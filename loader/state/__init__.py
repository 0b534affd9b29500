"""What a checkpoint keeps, and how a run goes on from one or several."""
