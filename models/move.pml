/* The move: one volume, two nodes, never two writers (S21-S25, S3, S9, S12, S15 in a move; L5).
 *
 * docs/decisions/0300 word by word: tickets, the record, the Grant with active and standby, Engine objects, agents,
 * engine processes, replicas with floors and `wrote` marks, clients whose requests outlive an engine. Side 0 is node 0
 * with slot v-e, side 1 is node 1 with slot v-e-b; a move may go either way. Every option below is one indivisible
 * step of one actor; dead, slow and cut off is not being scheduled. README.md says what is left out.
 *
 * When World has ended, no further fault comes: whoever then has nothing left to do must be at a proper end (L5). */
#ifndef NR
#define NR 2     /* replicas */
#endif
#ifndef NW
#define NW 1     /* writes in all, at most 6 */
#endif
#ifndef NT
#define NT 1     /* tickets that come or go */
#endif
#ifndef NK
#define NK 1     /* engine processes that die */
#endif
#ifndef ND
#define ND 0     /* nodes that die (and return in another incarnation) */
#endif
#ifndef NN
#define NN 0     /* nodes that are not Ready although they live */
#endif
#ifndef NCUT
#define NCUT 0   /* members that an engine loses */
#endif
#ifndef NA
#define NA 1     /* explicit requests to activate */
#endif
#ifndef NF
#define NF 0     /* times that the volume faults and must leave its node */
#endif
#ifndef SPLIT
#define SPLIT 0  /* 1: a controller looks first and writes later, by compare-and-swap; 0: the same without a gap */
#endif
#ifndef TICKETS
#define TICKETS 3 /* at the beginning: bit 0 source, bit 1 destination */
#endif

/* phases of the record */
#define PREP 1
#define READY 2
#define ACTV 3
#define CONF 4
#define ROLL 5
/* engine processes */
#define NONE 0
#define BOOT 1
#define STBY 2
#define HELLO 3  /* start rule under way */
#define SERVE 4
#define HELD 5   /* superseded, keeps its clients */
#define TAKE 6   /* epoch.take under way */
/* Engine.spec and Engine.status */
#define RUN 1
#define STOP 2
#define DEL 3    /* deleted, the agent's finalizer is left */
#define ISTART 1
#define ISTBY 2
#define IRUN 3
#define IENDED 4
/* values */
#define V_PEND 1
#define V_CUR 2
#define V_PAST 3

#define ALLM ((1 << NR) - 1)
#define NOBOUND 31

/* tickets and Volume */
bit tk[2]; bit sat[2]; byte N = 1; byte mig; byte cur = 1;
/* the record; he, hi: holders not yet proven to be released (kept without a move too: then it is Grant.active) */
byte mp; bit ms; byte he[2]; byte hi[2]; byte mserved;
/* the Grant */
byte ga = 1; byte gae = 1; byte gai; byte gs; byte gse; byte gsi; byte gep = 1; byte gm = ALLM;
/* Engine objects */
byte des[2]; byte spe[2]; byte est[2]; byte ese[2]; byte hst[2];
/* nodes and agents; rec: highest epoch recorded as used, aw: start decided, ap: activation decided */
bit up[2] = 1; bit nr[2] = 1; byte inc[2]; byte rec[2]; byte aw[2]; bit ap[2];
/* engine processes */
byte ps[2]; byte pe[2]; bit pstb[2]; byte pv[2]; byte hd[2]; byte lost[2]; byte hold[2]; bit want[2]; byte sw[2]; byte plast[2];
byte ans[2];
/* clients: an open session (osb: over a standby, never yet served by an active engine) and one write that is not acknowledged */
bit open[2]; bit osb[2]; byte cl[2]; byte base[2];
/* replicas */
byte fl[NR] = 1; byte mem[NR]; byte wrote[NR]; byte exm[NR]; byte inf_[2 * NR];
#ifdef PLANT_WROTE_DIRTY
bit dirty[NR] = 1;
#endif
#define INF(s, r) inf_[(s) * NR + (r)]
/* controllers */
byte acp; byte vcp;
/* budgets and what only the checker knows */
byte nv = 1; byte nt; byte nk; byte nd; byte nn; byte ncut; byte na; byte nf; bit quiet;
byte st[NW + 1]; byte by[2]; byte cv; bit srv; byte srve = 1; short used = 2; short actm = 2; bit rdy[2];

hidden byte i; hidden byte c; hidden byte x;

#ifdef REACH
#define LANDMARK(n) assert((n) != REACH)
#else
#define LANDMARK(n) skip
#endif
#ifdef DATA_ONLY
#define MECHANISM(p) skip
#else
#define MECHANISM(p) assert(p)
#endif

#define S (ms)
#define D (1 - ms)
#define PROVEN(s) ((est[s] == IENDED && ese[s] == he[s]) || inc[s] > hi[s])
#define SERVES(s) (ga == s + 1 && est[s] == IRUN && ese[s] == gae)
/* An epoch that the Grant still names may yet be started: its agent speaks first. */
#define TAKEN_UP(s) (ese[s] == he[s] || !((ga == s + 1 && gae == he[s]) || (gs == s + 1 && gse == he[s])))
#define NAMED_A(s) (ga == s + 1 && gai == inc[s])
#define NAMED_S(s) (gs == s + 1 && gsi == inc[s])
#define FENCED_AT(s, r) (fl[r] > pe[s])
#if NR == 1
#define FENCED(s) ((pv[s] & 1) && FENCED_AT(s, 0))
#define ALL_FENCED(s) (!(gm & 1) || FENCED_AT(s, 0))
#define ALL_MINE(s) (!(pv[s] & 1) || fl[0] == pe[s])
#define FLOORS(e) (!(gm & 1) || fl[0] >= e)
#else
#define FENCED(s) (((pv[s] & 1) && FENCED_AT(s, 0)) || ((pv[s] & 2) && FENCED_AT(s, 1)))
#define ALL_FENCED(s) ((!(gm & 1) || FENCED_AT(s, 0)) && (!(gm & 2) || FENCED_AT(s, 1)))
#define ALL_MINE(s) ((!(pv[s] & 1) || fl[0] == pe[s]) && (!(pv[s] & 2) || fl[1] == pe[s]))
#define FLOORS(e) ((!(gm & 1) || fl[0] >= e) && (!(gm & 2) || fl[1] >= e))
#endif
/* An engine that could still have a write acknowledged, or serve its clients, is not released. */
#define GONE(s) (ps[s] == NONE || ALL_FENCED(s))

/* A compare-and-swap: what was decided on an older version comes to nothing. Plans 20 and above write the Volume only. */
inline volume_changed() { acp = 0; vcp = 0 }
inline tickets_changed() { acp = 0 }
inline grant_changed() {
#ifndef PLANT_ACTIVATE_NO_CAS
  ap[0] = 0; ap[1] = 0;
#endif
  if
  :: vcp < 20 -> vcp = 0
  :: else
  fi
}

#include "move_parts.pml"

active proctype Everyone() {
  d_step {
    tk[0] = TICKETS & 1; tk[1] = TICKETS / 2; sat[0] = tk[0];
    st[0] = V_CUR; he[0] = 1; des[0] = RUN; spe[0] = 1; est[0] = IRUN; ese[0] = 1; rec[0] = 1;
    ps[0] = SERVE; pe[0] = 1; pv[0] = ALLM; hd[0] = ALLM; open[0] = 1; base[0] = 1; plast[0] = NOBOUND
  }
end: do
  ATTACHMENT_CONTROLLER
  VOLUME_CONTROLLER
  AGENT(0)
  AGENT(1)
  ENGINE(0)
  ENGINE(1)
  LINK(0, 0)
  LINK(1, 0)
#if NR > 1
  LINK(0, 1)
  LINK(1, 1)
#endif
  WORLD
  :: else -> break
  od;
  check_end()
}
