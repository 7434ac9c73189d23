// Package renew decides when the credentials for the object store are fetched anew, and what is in use meanwhile.
//
// Credentials with a life are replaced well before its end, so that a source which does
// not answer for minutes costs nothing: the old ones sign on until they expire, and only
// then is there nothing to sign with. It never sees a secret; whoever fetched them holds
// what a Use refers to.
//
//		   Start             Fetched: Use
//		none ---> fetching --------------> valid --- Early before the end ---> fetching
//		           ^     |                                                        |
//		           |     | Failed                                                 | Failed
//		 back-off  |     v                                                        v
//		           +--- none <------- the end: Drop --------------------------- expiring
//
//	  - One fetch at a time. A failed one is tried again after 1 s, doubling to 60 s.
//	  - When the store refuses what is in use, new ones are fetched at once, but no sooner
//	    than RejectedPause after the last fetch began: a source that hands out the same ones
//	    again must not be asked for each request.
//	  - Times are the wall clock's, since that is what expiry is told in and what requests
//	    are signed with; it may be set at any moment, so it is looked at every LookEvery.
package renew
