"""Claims about metrics, LMS, APA, ICL and projected gradient steps."""
